/* What Rust and the kernels agree on: one plain struct per kernel, passed by value as its only argument.
 *
 * Field order: outputs, inputs, sizes, scalars. Shapes stand beside the pointers; all matrices are row-major. Rust gets
 * these structs from src/device/launcher/abi.rs, which bindgen makes from this file (tests/abi.rs says how).
 * Optional pointers may be null. Node ids are 32-bit; offsets, and anything multiplied by nodes, are 64-bit.
 */
#ifndef HARMONIA_ABI_H
#define HARMONIA_ABI_H

#ifdef __CUDACC_RTC__ /* NVRTC has no system headers */
typedef int int32_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif

/* Sizes shared with the launcher, which derives grids and buffers from them. */
enum {
    HARMONIA_MONB_FEATURES = 8,    /* features of a MoNB tile: 32 bytes of a row of X, one full sector */
    HARMONIA_MONB_ROWS = 128,      /* nodes of a MoNB tile */
    HARMONIA_LONG_ROW = 1024,      /* neighbours beyond which a row of the walk is cut into segments */
    HARMONIA_ROW_THREADS = 256,    /* threads of a block of the kernels that walk over rows */
    HARMONIA_SUM_COLUMNS = 32,     /* columns of a block of `column_sums` */
    HARMONIA_SUM_SLICES = 8,       /* slices of rows it adds up in parallel */
    HARMONIA_SELECT_THREADS = 256  /* threads of a block that adds up sizes of graphs */
};

/* Values of Dropout.place. */
enum { HARMONIA_DROP_NONE = 0, HARMONIA_DROP_INPUT = 1, HARMONIA_DROP_FEATURE = 2, HARMONIA_DROP_HIDDEN = 3 };

/* Masks of one step: entry `index` is dropped where Philox word `index` of the stream is below `threshold`. */
typedef struct Dropout {
    uint32_t key[2];
    uint32_t purpose;
    uint32_t step;
    uint32_t threshold;
    uint32_t place;
    float scale;
    uint64_t elements; /* entries of X from here on keep their inputs: points of a grid */
    uint64_t first;    /* entry of X that the rows at hand begin with */
} Dropout;

/* Non-zeros of X by columns. A column is cut into segments of at most HARMONIA_LONG_ROW non-zeros, at least one. */
typedef struct SparseColumns {
    const uint64_t* column_ptr;      /* d + 1: first place of each column */
    const uint32_t* rows;            /* nnz: row of each place */
    const float* values;             /* nnz */
    const uint64_t* begin;           /* first place of each segment */
    const uint64_t* end;             /* place behind its last */
    const uint32_t* segment_column;  /* its column */
    const uint32_t* first_segment;   /* d + 1: of each column, and the end */
    uint32_t segments;
    uint32_t features;
} SparseColumns;

/* noise.cu */
typedef struct DrawNoise {
    float* noise;    /* standard normal numbers times scale */
    uint64_t length;
    uint32_t key[2];
    uint32_t purpose;
    uint32_t step;
    float scale;
} DrawNoise;

/* route.cu */
typedef struct RouteForward {
    uint32_t* experts;         /* d x m */
    float* gates;              /* d x m */
    float* noise_scale;        /* d x m */
    const float* embeddings;   /* d x q */
    const float* router_gate;  /* q x C */
    const float* router_noise; /* q x C */
    const float* noise;        /* d x C, optional */
    uint32_t features;
    uint32_t expert_count;
    uint32_t active;
    uint32_t embedding;
} RouteForward;

typedef struct RouteBackward {
    float* d_embeddings;       /* d x q, += */
    float* d_router_gate;      /* q x C, += */
    float* d_router_noise;     /* q x C, += */
    const float* d_gates;      /* d x m */
    const uint32_t* experts;   /* d x m */
    const float* gates;        /* d x m */
    const float* noise_scale;  /* d x m */
    const float* embeddings;   /* d x q */
    const float* router_gate;  /* q x C */
    const float* router_noise; /* q x C */
    const float* noise;        /* d x C, optional */
    uint32_t features;
    uint32_t expert_count;
    uint32_t active;
    uint32_t embedding;
} RouteBackward;

/* hop_weights.cu */
#define HARMONIA_HOPS_SIMPLEX 0u  /* theta = alpha^2, normalised */
#define HARMONIA_HOPS_ABSOLUTE 1u /* theta = |alpha|, normalised */
#define HARMONIA_HOPS_SIGNED 2u   /* theta = alpha over the sum of |alpha| */
#define HARMONIA_HOPS_FREE 3u     /* theta = alpha, or U alpha */

typedef struct HopWeightsForward {
    float* hop_weights;      /* T x d */
    const float* hop_logits; /* T x d */
    const float* basis;      /* U, T x T, or null */
    uint32_t features;
    uint32_t hops;
    uint32_t kind;           /* HARMONIA_HOPS_... */
} HopWeightsForward;

typedef struct HopWeightsBackward {
    float* d_hop_logits;        /* T x d, += */
    const float* d_hop_weights; /* T x d */
    const float* hop_weights;   /* T x d */
    const float* hop_logits;    /* T x d */
    const float* basis;         /* U, T x T, or null */
    uint32_t features;
    uint32_t hops;
    uint32_t kind;
} HopWeightsBackward;

/* monb.cu. The hidden layers of expert c start at parameters + c * expert_size: weight (out x in), bias, next layer. */
typedef struct MonbFold {
    float* heads;              /* d x m x (w + 1): v = U^T a_k, then u . a_k */
    const float* parameters;   /* all of them */
    const float* coefficients; /* d x B */
    const uint32_t* experts;   /* d x m */
    uint64_t expert_size;
    uint64_t hidden_size;      /* parameters of the hidden layers, behind which U starts */
    uint32_t features;
    uint32_t active;
    uint32_t bases;
    uint32_t head_width;       /* w: last hidden width */
} MonbFold;

typedef struct MonbForward {
    float* responses;        /* n x d */
    float* workspace;        /* generic kernel: one piece per block; null: shared memory */
    const float* features;   /* n x d */
    const float* heads;      /* d x m x (w + 1) */
    const float* gates;      /* d x m */
    const uint32_t* experts; /* d x m */
    const float* parameters;
    const uint32_t* widths;  /* 1, hidden widths; generic kernel */
    uint64_t nodes;
    uint64_t expert_size;
    uint64_t workspace_size; /* floats of one piece */
    uint32_t feature_count;
    uint32_t active;
    uint32_t layers;         /* hidden layers */
    uint32_t head_width;
    Dropout dropout;
} MonbForward;

typedef struct MonbBackward {
    float* expert_sums;       /* teams x C x hidden_size, += : gradients of hidden layers, one slice a team */
    float* head_sums;         /* chunks x d x m x (w + 1), += : S = sum g h, then G = sum g */
    float* workspace;         /* as in MonbForward */
    const float* d_responses; /* n x d */
    const float* features;    /* n x d */
    const float* heads;       /* d x m x (w + 1) */
    const float* gates;       /* d x m */
    const uint32_t* experts;  /* d x m */
    const float* parameters;
    const uint32_t* widths;   /* 1, hidden widths; generic kernel */
    uint64_t nodes;
    uint64_t chunk_rows;      /* nodes of a chunk, a multiple of HARMONIA_MONB_ROWS */
    uint64_t expert_size;
    uint64_t hidden_size;     /* parameters of the hidden layers of an expert */
    uint64_t workspace_size;
    uint32_t feature_count;
    uint32_t expert_count;
    uint32_t active;
    uint32_t layers;
    uint32_t head_width;
    Dropout dropout;
} MonbBackward;

typedef struct MonbFinish {
    float* d_gates;            /* d x m */
    float* d_coefficients;     /* d x B, += */
    float* d_parameters;       /* all of them, +=: output layers, and hidden layers from expert_sums */
    const float* sums;         /* d x m x (w + 1) */
    const float* heads;        /* d x m x (w + 1) */
    const float* gates;        /* d x m */
    const uint32_t* experts;   /* d x m */
    const float* parameters;
    const float* coefficients; /* d x B */
    const float* expert_sums;  /* C x hidden_size */
    uint64_t expert_size;
    uint64_t hidden_size;      /* the output layer follows */
    uint32_t features;
    uint32_t expert_count;
    uint32_t active;
    uint32_t bases;
    uint32_t head_width;
    Dropout dropout;
} MonbFinish;

/* Every column of a sparse X: zero, then its non-zeros. */
typedef struct MonbSparseForward {
    MonbForward monb; /* responses: d + nnz */
    SparseColumns x;
} MonbSparseForward;

typedef struct MonbSparseBackward {
    MonbBackward monb; /* d_responses: d + nnz; expert_sums: blocks x C x hidden_size; head_sums: d x m x (w + 1) */
    SparseColumns x;
} MonbSparseBackward;

/* What a device finds out about a step. Zeroed before the first. */
#define HARMONIA_HALT_NUMBER 1u /* a loss or a norm is not a number */
#define HARMONIA_HALT_ROOM 2u   /* an expert has more pieces than there is room for */

typedef struct Verdict {
    double loss;
    double norm;
    uint32_t halted; /* HARMONIA_HALT_...: updates leave everything as it is */
    uint32_t pieces; /* of the expert that has most; what it would have had at least, where there was no room */
} Verdict;

/* compile.cu. The parameters of expert c start at parameters + c * expert_size: weight (out x in), bias, next layer. Level l
 * is what layer l reads: x itself, then the units of each hidden layer, lines on every piece that the layers before make. */
typedef struct Compiled {
    float* thresholds;         /* C x room: where an expert changes piece, increasing */
    double* slopes;            /* C x room x B */
    double* intercepts;        /* C x room x B */
    double* level_slopes;      /* C x (units x room): level after level, pieces x width each */
    double* level_intercepts;  /* C x (units x room) */
    uint32_t* parents;         /* C x layers x room: the piece of the level before that holds a piece */
    uint32_t* counts;          /* C x layers: pieces of each level; of the last, those of the expert */
    uint32_t* needed;          /* C: pieces there should be room for; above `room`: the expert was given up */
    const float* parameters;
    const uint32_t* widths;    /* layers + 1: 1, hidden widths, B */
    uint64_t expert_size;
    uint32_t expert_count;
    uint32_t layers;
    uint32_t units;            /* of all levels */
    uint32_t widest;           /* of all layers */
    uint32_t bases;
    uint32_t room;             /* pieces of an expert, at most */
} Compiled;

typedef struct KnotsExperts {
    Compiled compiled;
    double* unit_slopes;     /* C x room x widest: units of the layer at hand before ReLU, on each piece of its inputs */
    double* unit_intercepts; /* C x room x widest */
    float* unit_ends;        /* C x room x widest: where they switch inside the piece, else infinity */
    uint32_t* unit_on;       /* C x room x widest: whether they are on where the piece begins */
    uint32_t* unit_ranks;    /* C x 2 x room x widest: whether they are the first to switch there; places before theirs */
    float* ends;             /* C x 3 x room: of the pieces, of those of the next level, of their parts */
    uint32_t* parts;         /* C x 4 x room: first part of each piece; piece, idleness and place of each part */
} KnotsExperts;

typedef struct KnotsLines {
    float* thresholds;         /* d x most */
    uint32_t* threshold_count; /* d */
    uint32_t* piece_count;     /* d */
    float* lines;              /* d x stride x 2 */
    float* folded;             /* d x m x 2 x room: slopes and then intercepts of a_k . psi of each slot */
    float* sorted;             /* d x stride: thresholds of all slots */
    Verdict* verdict;
    Compiled compiled;
    const uint32_t* experts;   /* d x m */
    const float* gates;        /* d x m */
    const float* coefficients; /* d x B */
    uint32_t features;
    uint32_t active;
    uint32_t stride;           /* pieces of a feature, at most */
    uint32_t most;             /* thresholds of a feature, padded */
} KnotsLines;

typedef struct KnotsFinish {
    float* gradient;             /* of all experts, += */
    float* d_coefficients;       /* d x B, += */
    float* d_gates;              /* d x m */
    double* slot_sums;           /* d x m x 2 x room: sums of g x and of g over the pieces of each slot's expert */
    double* parts;               /* stretches x C x 2 x room x B: gradients of lines over the features of each stretch */
    double* d_outputs;           /* C x 2 x room x widest: of the layer at hand */
    double* d_inputs;            /* C x 2 x room x widest */
    Compiled compiled;
    const float* sums;           /* stride x 2 x d */
    const float* thresholds;     /* d x most */
    const uint32_t* piece_count; /* d */
    const float* folded;         /* d x m x 2 x room */
    const uint32_t* experts;     /* d x m */
    const float* gates;          /* d x m */
    const float* coefficients;   /* d x B */
    uint32_t features;
    uint32_t active;
    uint32_t most;
    uint32_t stretch;            /* features of a stretch */
    uint32_t stretches;
} KnotsFinish;

/* knots.cu. Thresholds of a feature: increasing, then infinities up to one less than a power of two. */
typedef struct Knots {
    const float* thresholds;         /* d x most_thresholds */
    const uint32_t* threshold_count; /* d: one less than a power of two */
    const uint32_t* piece_count;     /* d */
    const float* lines;              /* d x stride x 2: slope and intercept of each piece */
    uint32_t features;
    uint32_t stride;                 /* pieces of a feature, at most */
    uint32_t most_thresholds;        /* of a feature, at most */
    uint32_t lanes;                  /* features of a warp: a power of two up to 32; the rest of its lanes are rows */
    uint32_t in_shared;              /* tables and sums of a block stand in shared memory */
} Knots;

typedef struct KnotsForward {
    float* responses;      /* n x d */
    const float* features; /* n x d */
    uint64_t nodes;
    uint64_t block_rows;
    Knots knots;
    Dropout dropout;
} KnotsForward;

typedef struct KnotsBackward {
    float* sums;              /* chunks x stride x 2 x d: sum of g x, then of g */
    float* tables;            /* tiles x chunks x stride x 2 x 32: sums that do not fit shared memory, or null */
    const float* d_responses; /* n x d */
    const float* features;    /* n x d */
    uint64_t nodes;
    uint64_t chunk_rows;      /* rows of a warp */
    uint32_t chunks;
    Knots knots;
    Dropout dropout;
} KnotsBackward;

typedef struct KnotsSums {
    float* sums;                 /* stride x 2 x d */
    const float* chunk_sums;     /* chunks x stride x 2 x d */
    const uint32_t* piece_count; /* d */
    uint32_t chunks;
    uint32_t features;
    uint32_t stride;
} KnotsSums;

typedef struct KnotsSparseForward {
    float* responses; /* d + nnz: f(0), then f(x) - f(0) */
    SparseColumns x;
    Knots knots;
    Dropout dropout;
} KnotsSparseForward;

typedef struct KnotsSparseBackward {
    float* sums;              /* stride x 2 x d */
    float* segment_sums;      /* segments x stride x 2 */
    const float* d_responses; /* d + nnz: sums over columns, then non-zeros */
    SparseColumns x;
    Knots knots;
    Dropout dropout;
} KnotsSparseBackward;

/* project.cu. States of all hops stand side by side: row i holds T x width columns, of which those of hop t begin at
 * t * width; width is L padded, and what is padded is zero. States are float, half or bfloat16 by the kernel's suffix. */
typedef struct ProjectWeights {
    float* weights;           /* d x (T width): theta_t[k] Wo[k], side by side */
    const float* hop_weights; /* T x d */
    const float* readout;     /* d x L */
    uint32_t features;
    uint32_t hops;
    uint32_t outputs;
    uint32_t width;
} ProjectWeights;

typedef struct ProjectGradients {
    float* d_readout;         /* d x L, += */
    float* d_hop_weights;     /* T x d */
    const float* sums;        /* d x (T width): S = F^T Y */
    const float* hop_weights; /* T x d */
    const float* readout;     /* d x L */
    uint32_t features;
    uint32_t hops;
    uint32_t outputs;
    uint32_t width;
} ProjectGradients;

typedef struct ProjectStates {
    void* states;                /* rows x columns, stored; project_load: input */
    float* values;               /* rows x columns; project_store: input; project_totals: parts x columns */
    const float* inverse_degree; /* rows; null: all 1 */
    const float* scale;          /* as in WalkStart: what is loaded is divided by it */
    uint64_t rows;
    uint64_t part_rows;          /* project_totals: rows of a part */
    uint32_t columns;
} ProjectStates;

typedef struct ProjectSparseForward {
    void* states;              /* n x columns */
    const float* responses;    /* d + nnz */
    const float* weights;      /* d x columns */
    const float* base;         /* columns: f(0) W */
    const uint64_t* row_ptr;   /* n + 1 */
    const uint32_t* col_idx;   /* nnz, row by row */
    const uint32_t* places;    /* nnz: place of each entry of the rows, column by column */
    uint64_t rows;
    uint64_t block_rows;
    uint32_t columns;
    uint32_t features;
} ProjectSparseForward;

typedef struct ProjectSparseBackward {
    float* sums;                 /* d x columns: S */
    float* segment_sums;         /* segments x columns */
    float* responses;            /* d + nnz: F in, dF of non-zeros out */
    const void* states;          /* n x columns */
    const float* weights;        /* d x columns */
    const float* inverse_degree; /* n; null: all 1 */
    const float* scale;          /* as in ProjectStates */
    SparseColumns x;
    uint32_t columns;
} ProjectSparseBackward;

/* walk.cu. States as in project.cu. */
typedef struct WalkStart {
    void* state;                 /* n x columns: hop 0, or all hops of a graph task */
    const float* d_logits;       /* rows x L */
    const float* inverse_degree; /* n; walk_start */
    const float* node_weights;   /* n x T: v_t; walk_weighted_start */
    const uint32_t* graph_of;    /* n; walk_weighted_start */
    const float* scale;          /* 1: factor on stored states, of half_scale; states that are not half: not read */
    uint64_t rows;               /* n */
    uint32_t columns;
    uint32_t width;
    uint32_t outputs;
    uint32_t hops;
} WalkStart;

typedef struct WalkRows {
    void* next;                  /* n x columns: out = added + sum / degree */
    float* logits;               /* n x L: the last step forward; or null */
    float* sums;                 /* items x width: plain sums of segments; or null */
    const void* added;           /* n x columns: what is added; or null */
    const void* state;           /* n x columns: gathered from; null: nothing is */
    const float* inverse_degree; /* n */
    const float* bias;           /* L; with logits */
    const uint64_t* begin;       /* first entry of each item */
    const uint64_t* end;         /* entry behind the last of each item */
    const uint32_t* col_idx;
    const float* weights;        /* of entries; null: all 1 */
    const uint64_t* rows;        /* a bit per row: those that are computed; null: all */
    const uint64_t* sources;     /* a bit per row: states that may be other than zero; null: all */
    uint64_t items;              /* rows of the matrix, or segments of long rows */
    uint64_t block_items;        /* items of a block */
    uint32_t columns;
    uint32_t width;
    uint32_t outputs;
    uint32_t group;              /* lanes of an item over columns */
    uint32_t entry_lanes;        /* lanes of an item over entries */
} WalkRows;

typedef struct WalkLong {
    WalkRows step;                 /* what becomes of the sums */
    const float* segment_sums;     /* segments x width */
    const uint32_t* long_rows;     /* which rows */
    const uint32_t* first_segment; /* of each long row, and the end */
    uint32_t long_row_count;
} WalkLong;

typedef struct WalkWeighted {
    float* logits;             /* graphs x L */
    const void* states;        /* n x columns */
    const float* node_weights; /* n x T: v_t */
    const float* bias;         /* L */
    const uint64_t* graph_ptr; /* graphs + 1 */
    uint32_t graphs;
    uint32_t columns;
    uint32_t width;
    uint32_t outputs;
    uint32_t hops;
} WalkWeighted;

/* propagate.cu. States are float, half or bfloat16 by the kernel's suffix. */
typedef struct PropagateStart {
    float* accumulated;          /* n x d: H = theta_0 F; backward: dH in, theta_0 dH out */
    void* state;                 /* n x d: the state hop 1 gathers from; null where there is none to write */
    float* partial;              /* backward: blocks x d, <F, dH> over the rows of each block */
    const float* responses;      /* n x d: F */
    const float* inverse_degree; /* n */
    const float* hop_weights;    /* d: theta_0 */
    const float* state_scale;    /* 1: factor on stored states, of half_scale; states that are not half: not read */
    uint64_t rows;
    uint64_t block_rows;         /* rows of a block */
    uint32_t cols;
} PropagateStart;

typedef struct Propagate {
    float* accumulated;          /* n x d: H or dF, += */
    void* next;                  /* n x d: the next state; null after the last hop */
    float* partial;              /* backward: blocks x d; partial sums: items x d */
    const void* state;           /* n x d: gathered from */
    const float* responses;      /* n x d: F; backward */
    const float* inverse_degree; /* n */
    const float* hop_weights;    /* d: theta_t */
    const uint64_t* begin;       /* first entry of each item */
    const uint64_t* end;         /* entry behind the last of each item */
    const uint32_t* col_idx;
    const float* weights;        /* of entries; null: all 1 */
    const uint64_t* rows;        /* forward, a bit per row: those that are computed; null: all */
    const uint64_t* sources;     /* a bit per row: states that may be other than zero; null: all */
    const float* state_scale;    /* as in PropagateStart */
    uint64_t items;              /* rows of the matrix, or segments of long rows */
    uint64_t block_items;        /* items of a block */
    uint32_t cols;
    uint32_t group;              /* lanes of an item in the kernels for fewer than 32 columns */
} Propagate;

typedef struct PropagateLong {
    float* accumulated;            /* n x d, += */
    void* next;                    /* n x d, optional */
    float* partial;                /* backward: long rows x d, <F, y> of the row */
    const float* segment_sums;     /* segments x d */
    const float* responses;        /* n x d; backward */
    const float* inverse_degree;   /* n */
    const float* hop_weights;      /* d */
    const uint32_t* long_rows;     /* which rows */
    const uint32_t* first_segment; /* of each long row, and the end */
    const float* state_scale;      /* as in PropagateStart */
    uint32_t long_row_count;
    uint32_t cols;
} PropagateLong;

/* bends.cu */
typedef struct Bends {
    float* responses;         /* points x d: F at the points in, the penalty's gradient by it out */
    float* d_hop_weights;     /* T x d */
    float* d_readout;         /* d x L, += */
    float* penalties;         /* d */
    const float* points;      /* points x d: of each feature, then any numbers */
    const float* counts;      /* d: points of a feature */
    const float* hop_weights; /* T x d */
    const float* readout;     /* d x L */
    double strength;
    uint32_t rows;            /* points of the feature that has most */
    uint32_t features;
    uint32_t hops;
    uint32_t outputs;
    uint32_t free_hops;       /* whether hop weights have a size of their own */
} Bends;

/* readout.cu */
typedef struct Bias {
    float* logits;     /* rows x L */
    const float* bias; /* L */
    uint64_t rows;
    uint32_t outputs;
} Bias;

typedef struct GraphSum {
    float* pooled;             /* graphs x d; backward: input */
    float* nodes;              /* n x d: input; backward: output */
    const uint64_t* graph_ptr; /* graphs + 1 */
    uint32_t graphs;
    uint32_t features;
} GraphSum;

/* loss.cu */
typedef struct Loss {
    float* d_logits;         /* rows x L */
    double* partial;         /* one per block */
    const float* logits;     /* rows x L */
    const uint32_t* targets; /* words that the loss reads as its own type; a row without a target says so in its first */
    uint64_t rows;
    uint64_t block_rows;
    uint32_t outputs;
    uint32_t stride;         /* words of a row of targets: those of the loss, and perhaps its weight */
    float scale;             /* 1 / targets */
} Loss;

typedef struct Retarget {
    uint32_t* targets;    /* rows of logits x width */
    const uint32_t* rows; /* which */
    const uint32_t* words; /* count x width: their targets; null: they have none */
    uint64_t count;
    uint32_t width;
} Retarget;

/* select.cu. Of the dataset: "all"; the rest is of the batch. */
typedef struct SelectGraphs {
    uint64_t* offsets[3];       /* B + 1: nodes, entries of the walk, non-zeros of X before each graph; null: nobody asks */
    const uint64_t* row_ptr[3]; /* of all rows; null: rows themselves are counted */
    const uint32_t* graphs;     /* B: which */
    const uint64_t* graph_ptr;  /* first node of all graphs, and the end */
    uint32_t count;             /* B */
} SelectGraphs;

typedef struct Selected {
    const uint32_t* graphs;        /* B: which */
    const uint64_t* graph_ptr;     /* B + 1 */
    const uint64_t* all_graph_ptr;
    uint64_t nodes;
    uint32_t count;                /* B */
} Selected;

typedef struct SelectNodes {
    uint32_t* sources;  /* n: node of the dataset */
    uint32_t* graph_of; /* n: graph of the batch */
    Selected batch;
} SelectNodes;

typedef struct SelectEntries {
    uint64_t* row_ptr;           /* n + 1 */
    uint32_t* col_idx;           /* entries */
    float* weights;              /* entries; null: all 1 */
    const uint64_t* offsets;     /* B + 1: first entry of each graph */
    const uint32_t* sources;     /* n */
    const uint32_t* graph_of;    /* n */
    const uint64_t* all_row_ptr;
    const uint32_t* all_col_idx;
    const float* all_weights;
    uint64_t entries;
    Selected batch;
} SelectEntries;

typedef struct SelectColumns {
    uint32_t* firsts;               /* d x B: first place of a column's non-zeros of a graph in the dataset */
    uint32_t* places;               /* d x B: how many they are; select_segments: first place in the batch */
    uint64_t* column_ptr;           /* d + 1 */
    uint64_t* segment_begin;        /* as in SparseColumns */
    uint64_t* segment_end;
    uint32_t* segment_column;
    uint32_t* first_segment;        /* d + 1 */
    const uint64_t* all_column_ptr; /* d + 1 */
    const uint32_t* all_rows;
    uint32_t features;
    uint32_t segments;              /* that there is room for */
    Selected batch;
} SelectColumns;

typedef struct SelectNonzeros {
    uint64_t* row_ptr;          /* n + 1 */
    uint32_t* col_idx;          /* non-zeros */
    uint32_t* places;           /* non-zeros */
    uint32_t* rows;             /* non-zeros, by place */
    float* values;              /* non-zeros, by place */
    const uint64_t* offsets;    /* B + 1: first non-zero of each graph */
    const uint32_t* sources;    /* n */
    const uint32_t* graph_of;   /* n */
    const uint32_t* firsts;     /* d x B */
    const uint32_t* starts;     /* d x B: first place in the batch */
    const uint64_t* all_row_ptr;
    const uint32_t* all_col_idx;
    const uint32_t* all_places;
    const uint32_t* all_rows;   /* by place */
    const float* all_values;    /* by place */
    uint64_t nonzeros;
    Selected batch;
} SelectNonzeros;

/* table.cu: columns are (feature, hop, hat), features in order; those of a block of features stand in an array of their own. */
typedef struct TableWeights {
    float* weights;              /* columns: what a cell counts */
    float* constants;            /* d x 2: what a row counts whatever its cells, once and times its size */
    const float* points;         /* responses at the points of the grid, then perhaps at zero; x d */
    const float* hop_weights;    /* T x d */
    const float* scales;         /* columns x 2: low, step */
    const uint32_t* column_ptr;  /* d + 1: first column of each feature */
    uint32_t features;
    uint32_t first_hop;
    uint32_t hops;
    uint32_t zero;               /* row of `points` with the responses at zero */
    float dropped;               /* probability that inputs are dropped; 0: `zero` is not read */
} TableWeights;

typedef struct TableForward {
    float* state;                /* rows x d: H */
    const void* cells;           /* table rows x width */
    const uint32_t* rows;        /* row of the table of each row */
    const float* sizes;          /* rows; null: all 1 */
    const float* own;            /* rows x d: F of the units themselves; null: none */
    const float* hop_weights;    /* T x d */
    const float* weights;        /* columns */
    const float* constants;      /* d x 2 */
    const uint32_t* column_ptr;  /* d + 1 */
    uint64_t row_count;
    uint32_t features;
    uint32_t first_feature;      /* of the block */
    uint32_t block_features;
    uint32_t width;              /* columns of the block */
    uint32_t longest;            /* columns of the feature that has most; 0: weights stay in global memory */
} TableForward;

typedef struct TableSums {
    float* partial;              /* stretches x width: sums of dH times cell */
    const float* d_state;        /* rows x d */
    const void* cells;           /* table rows x width */
    const uint32_t* rows;        /* row of the table of each row */
    const uint32_t* column_feature; /* columns */
    uint64_t row_count;
    uint64_t stretch;            /* rows of a stretch */
    uint32_t features;
    uint32_t first_column;       /* of the block */
    uint32_t width;
} TableSums;

typedef struct TableRowSums {
    float* partial;              /* stretches x 3 x d: sums of dH, of size times dH, of F times dH */
    const float* d_state;        /* rows x d */
    const float* sizes;          /* rows; null: all 1 */
    const float* own;            /* rows x d; null: none */
    uint64_t row_count;
    uint64_t stretch;
    uint32_t features;
} TableRowSums;

typedef struct TableFinish {
    float* points;               /* in: responses at points, out: their gradients; x d */
    float* d_hop_weights;        /* T x d */
    const float* sums;           /* columns */
    const float* row_sums;       /* 3 x d */
    const float* hop_weights;    /* T x d */
    const float* scales;         /* columns x 2 */
    const uint32_t* column_ptr;  /* d + 1 */
    uint32_t features;
    uint32_t first_hop;
    uint32_t hops;
    uint32_t most;               /* points of the feature that has most */
    float dropped;               /* as in TableWeights; the row of zeros is row `most` */
} TableFinish;

typedef struct TableOwn {
    float* responses;            /* rows x d: out theta_0 dH */
    const float* d_state;        /* rows x d */
    const float* hop_weights;    /* T x d */
    uint64_t row_count;
    uint32_t features;
} TableOwn;

/* table_walks.cu */
typedef struct TableWalks {
    float* state;                /* rows x d: H, added to; not read by the sums */
    float* partial;              /* stretches x (steps + most) x d, of the sums */
    float* responses;            /* rows x walks x steps x d: F at the ends of walks; the sums leave dF there */
    const float* ends;           /* the same of X */
    const float* points;         /* most x d: responses at the points of the grid */
    const float* grid;           /* most x d: X there */
    const float* hop_weights;    /* T x d */
    const float* d_state;        /* rows x d: dH, of the sums */
    const uint32_t* column_ptr;  /* d + 1: first column of each feature */
    uint64_t row_count;
    uint64_t stretch;            /* rows of a stretch, of the sums */
    uint32_t features;
    uint32_t walks;              /* R */
    uint32_t steps;              /* T - 1 */
    uint32_t most;               /* points of the feature that has most */
    float share;                 /* (1 - p) / R */
} TableWalks;

typedef struct TableWalksFinish {
    float* d_hop_weights;        /* T x d, added to */
    float* points;               /* most x d: gradients at points, added to */
    const float* sums;           /* (steps + most) x d */
    uint32_t features;
    uint32_t steps;
    uint32_t most;
} TableWalksFinish;

/* reduce.cu */
typedef struct ColumnSums {
    float* sums;         /* parts x columns, or columns with one part */
    const float* values; /* rows x columns */
    uint64_t rows;
    uint64_t part_rows;  /* rows of a part */
    uint64_t columns;
    uint32_t accumulate; /* += */
} ColumnSums;

typedef struct SquareSums {
    double* partial;     /* one per block */
    const float* values;
    uint64_t length;
    uint64_t block_length;
} SquareSums;

typedef struct Largest {
    float* partial;              /* one per block */
    const float* values;         /* rows x columns */
    const float* inverse_degree; /* rows; null: all 1 */
    uint64_t length;             /* rows x columns */
    uint64_t block_length;
    uint32_t columns;
} Largest;

typedef struct HalfScale {
    float* scale;         /* 1: the power of two that brings the largest to about `size`; 1 where there is nothing to scale */
    const float* partial; /* of `largest` */
    uint64_t length;
    float factor;         /* on the largest */
    float size;
} HalfScale;

typedef struct Judge {
    Verdict* verdict;
    const double* partial; /* of the loss, or of the squares of a gradient */
    uint64_t length;
    double count;          /* judge_loss: what the loss is a mean over */
} Judge;

typedef struct ReadRows {
    float* out;           /* rows x width */
    const float* values;
    const uint32_t* rows; /* which */
    uint64_t row_count;
    uint32_t width;
} ReadRows;

/* adam.cu */
typedef struct Adam {
    float* parameters;
    float* first_moment;
    float* second_moment;
    const float* gradient;
    const Verdict* verdict;
    uint64_t length;
    double clip_norm;    /* longest gradient; 0: any */
    float beta1;
    float beta2;
    float one_minus_beta1;
    float one_minus_beta2;
    float rate;          /* learning rate over the first bias correction */
    float correction;    /* of the second moment */
    float epsilon;
    float added_decay;   /* Adam: times the parameter, added to the gradient */
    float shrink;        /* AdamW: factor on the parameter */
} Adam;

typedef struct KeepSigns {
    float* values;
    const float* signs; /* 1, -1, or 0 where any number will do */
    uint64_t length;
} KeepSigns;

typedef struct Keep {
    float* kept;
    const float* values;
    uint64_t length;
} Keep;

typedef struct SumRanks {
    float* sum;         /* length */
    const float* parts; /* ranks x length */
    uint64_t length;
    uint64_t ranks;
} SumRanks;

#endif

// A libnccl.so.2 for emulated GPUs (devices.cpp): all-gather between ranks of one machine, be they threads or processes, through a
// file in the directory NCCL_STAND_IN. Misuse ends the program with one line, as undefined behaviour would somewhere else.
//
// An all-gather is done when it is asked for: what is ahead of it in the stream is waited for, what is behind it finds its result.
// NCCL_STAND_IN_LOG=FILE: `RANK init DEVICE`, `RANK gather BYTES`, `RANK destroy`, `RANK abort`, in the order of the calls.
// NCCL_STAND_IN_FAIL=WHAT:RANK:AT, at that all-gather of that rank, counted from 1: `error`, it fails; `hang`, it never comes;
// `notice`, it is told by ncclCommGetAsyncError alone, while it waits.

#include "devices.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace {
constexpr int MOST_RANKS = 16;
constexpr size_t SLOT = 16 << 20;
enum Result { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
const size_t SIZES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2}; // of the types of nccl.h

struct Id {
    char name[128];
};

// A rank, as all see it. A slot is filled in round `put`, counted from 1, and free once all have taken that round.
struct Place {
    std::atomic<int> here;
    unsigned char uuid[16];
    std::atomic<uint64_t> bytes, put, taken;
};
struct Board {
    std::atomic<int> made, ranks;
    Place places[MOST_RANKS];
};

struct Comm {
    Board* board;
    char* slots;
    int rank, ranks, device;
    uint64_t round = 0;
    std::atomic<bool> aborted{false}, noticed{false};
    std::string last;
};

std::mutex lock;
std::set<Comm*> alive;
thread_local std::string last_of_thread;

[[noreturn]] void misuse(const std::string& what) {
    fprintf(stderr, "NCCL API-MISUSE: %s\n", what.c_str());
    fflush(stderr);
    abort();
}

void say(int rank, const std::string& what) {
    if (const char* path = getenv("NCCL_STAND_IN_LOG")) {
        const std::string line = std::to_string(rank) + " " + what + "\n";
        const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (write(file, line.data(), line.size()) < 0) misuse("cannot write the log");
        close(file);
    }
}

Comm* living(Comm* comm, const char* call) {
    std::lock_guard<std::mutex> guard(lock);
    if (!comm) misuse(std::string(call) + " before ncclCommInitRank");
    if (!alive.count(comm)) misuse(std::string(call) + " of a communicator that is gone");
    return comm;
}

void end(Comm* comm, const char* call) {
    living(comm, call);
    std::lock_guard<std::mutex> guard(lock);
    alive.erase(comm);
}

// Until something is so, or the communicator is aborted.
template <typename So> bool until(Comm* comm, So so) {
    while (!so()) {
        if (comm->aborted) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
}

template <typename So> bool of_all(Comm* comm, So so) {
    return until(comm, [&] {
        for (int rank = 0; rank < comm->ranks; ++rank) {
            if (!so(comm->board->places[rank])) return false;
        }
        return true;
    });
}

int failed(Comm* comm, Result code, const char* why) {
    comm->last = last_of_thread = why;
    return code;
}

// What is to go wrong with this all-gather.
std::string planned(const Comm* comm) {
    const char* plan = getenv("NCCL_STAND_IN_FAIL");
    if (!plan) return "";
    char what[16];
    int rank, at;
    if (sscanf(plan, "%15[a-z]:%d:%d", what, &rank, &at) != 3) misuse("NCCL_STAND_IN_FAIL");
    return comm->rank == rank && comm->round == static_cast<uint64_t>(at) ? what : "";
}

Board* board_of(const Id& id) {
    const int file = open(id.name, O_RDWR);
    if (id.name[0] != '/' || file < 0) misuse("ncclCommInitRank with an id that ncclGetUniqueId has not made");
    void* at = mmap(nullptr, sizeof(Board) + MOST_RANKS * SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED) misuse("no memory for the stand-in");
    return static_cast<Board*>(at);
}
} // namespace

API int ncclGetUniqueId(Id* id) {
    const char* directory = getenv("NCCL_STAND_IN");
    memset(id->name, 0, sizeof id->name);
    snprintf(id->name, sizeof id->name, "%s/ranks-XXXXXX", directory ? directory : "/tmp");
    const int file = mkstemp(id->name);
    if (file < 0 || ftruncate(file, sizeof(Board) + MOST_RANKS * SLOT)) return SYSTEM_ERROR;
    close(file);
    return SUCCESS;
}

API int ncclCommInitRank(Comm** out, int ranks, Id id, int rank) {
    if (ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks) misuse("ncclCommInitRank of a rank that is none");
    const int device = devices_current();
    if (device < 0) misuse("ncclCommInitRank without a current context");
    Board* board = board_of(id);
    int none = 0;
    if (!board->ranks.compare_exchange_strong(none, ranks) && none != ranks) misuse("ranks have other numbers of ranks");
    Place& place = board->places[rank];
    none = 0;
    cuDeviceGetUuid_v2(place.uuid, device);
    if (!place.here.compare_exchange_strong(none, 1)) misuse("a rank was initialised twice");
    auto* comm = new Comm{board, reinterpret_cast<char*>(board + 1), rank, ranks, device};
    of_all(comm, [](Place& place) { return place.here.load() != 0; });
    for (int other = 0; other < ranks; ++other) {
        if (other != rank && !memcmp(board->places[other].uuid, place.uuid, sizeof place.uuid)) {
            delete comm;
            last_of_thread = "Duplicate GPU detected";
            return INVALID_USAGE;
        }
    }
    std::lock_guard<std::mutex> guard(lock);
    alive.insert(comm);
    say(rank, "init " + std::to_string(device));
    *out = comm;
    return SUCCESS;
}

API int ncclAllGather(const void* send, void* receive, size_t count, int type, Comm* comm, void* stream) {
    living(comm, "ncclAllGather");
    if (type < 0 || type > 9) misuse("ncclAllGather of a type that is none");
    const size_t bytes = count * SIZES[type];
    if (bytes > SLOT) misuse("more bytes than the stand-in has room for");
    const auto from = reinterpret_cast<uint64_t>(send), to = reinterpret_cast<uint64_t>(receive);
    if (devices_of_stream(stream) != comm->device) misuse("ncclAllGather on a stream of another device");
    if (devices_of_memory(from, bytes) != comm->device) misuse("ncclAllGather from memory that its device does not have");
    const size_t whole = bytes * comm->ranks;
    if (devices_of_memory(to, whole) != comm->device) misuse("ncclAllGather to memory that its device does not have");
    const bool in_place = from == to + bytes * comm->rank;
    if (!in_place && from < to + whole && to < from + bytes) misuse("ncclAllGather to memory that it reads");

    ++comm->round;
    const std::string plan = planned(comm);
    if (plan == "error") return failed(comm, SYSTEM_ERROR, "the stand-in was told to fail");
    if (plan == "notice") comm->noticed = true;
    if (plan == "hang" || plan == "notice") {
        until(comm, [] { return false; });
        return failed(comm, REMOTE_ERROR, "aborted");
    }
    const auto gone = [&] { return failed(comm, REMOTE_ERROR, "aborted while it waited for the other ranks"); };
    if (cuStreamSynchronize(stream)) return failed(comm, SYSTEM_ERROR, "what was ahead in the stream has failed");
    Board* board = comm->board;
    const uint64_t round = comm->round;
    if (!of_all(comm, [&](Place& place) { return place.taken + 1 >= round; })) return gone();
    Place& mine = board->places[comm->rank];
    memcpy(comm->slots + comm->rank * SLOT, send, bytes);
    mine.bytes = bytes;
    mine.put = round;
    if (!of_all(comm, [&](Place& place) { return place.put >= round; })) return gone();
    // So that the emulator knows that it is written.
    cuMemsetD8Async(to, 0, whole, stream);
    cuStreamSynchronize(stream);
    for (int rank = 0; rank < comm->ranks; ++rank) {
        if (board->places[rank].bytes != bytes) misuse("ranks gather other numbers of bytes");
        memcpy(static_cast<char*>(receive) + rank * bytes, comm->slots + rank * SLOT, bytes);
    }
    mine.taken = round;
    say(comm->rank, "gather " + std::to_string(bytes));
    return SUCCESS;
}

API int ncclCommGetAsyncError(Comm* comm, int* code) {
    living(comm, "ncclCommGetAsyncError");
    *code = comm->noticed ? REMOTE_ERROR : SUCCESS;
    return SUCCESS;
}

API int ncclCommAbort(Comm* comm) {
    end(comm, "ncclCommAbort");
    say(comm->rank, "abort");
    // Whoever is inside a call leaves it; so this memory stays.
    comm->aborted = true;
    return SUCCESS;
}

API int ncclCommDestroy(Comm* comm) {
    end(comm, "ncclCommDestroy");
    say(comm->rank, "destroy");
    munmap(comm->board, sizeof(Board) + MOST_RANKS * SLOT);
    delete comm;
    return SUCCESS;
}

API const char* ncclGetErrorString(int code) {
    switch (code) {
        case SUCCESS: return "no error";
        case SYSTEM_ERROR: return "unhandled system error";
        case INVALID_USAGE: return "invalid usage";
        case REMOTE_ERROR: return "remote process exited or there was a network error";
        default: return "unknown result code";
    }
}

API const char* ncclGetLastError(Comm*) { return last_of_thread.c_str(); }

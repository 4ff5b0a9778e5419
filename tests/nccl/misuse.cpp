// One misuse of NCCL each, by name: the stand-in ends this program before it prints that it was allowed. `none` is right.

#include "devices.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

struct Id {
    char name[128];
};
extern "C" {
int ncclGetUniqueId(Id* id);
int ncclCommInitRank(void** comm, int ranks, Id id, int rank);
int ncclAllGather(const void* send, void* receive, size_t count, int type, void* comm, void* stream);
int ncclCommDestroy(void* comm);
int ncclCommAbort(void* comm);
}

constexpr size_t COUNT = 300;
constexpr int FLOAT = 7;

// A rank on a device of its own, with memory for two ranks.
struct Rank {
    void *context = nullptr, *stream = nullptr, *comm = nullptr;
    uint64_t mine = 0, all = 0;

    Rank(int device) {
        cuDevicePrimaryCtxRetain(&context, device);
        cuCtxSetCurrent(context);
        cuStreamCreate(&stream, 1);
        cuMemAlloc_v2(&mine, COUNT * 4);
        cuMemAlloc_v2(&all, 2 * COUNT * 4);
        cuMemsetD8Async(mine, 1, COUNT * 4, stream);
    }
    void join(Id id, int ranks, int rank) { ncclCommInitRank(&comm, ranks, id, rank); }
    void gather(uint64_t to, uint64_t from, size_t count) {
        ncclAllGather(reinterpret_cast<void*>(from), reinterpret_cast<void*>(to), count, FLOAT, comm, stream);
    }
};

int main(int, char** arguments) {
    cuInit(0);
    Id id;
    ncclGetUniqueId(&id);
    // Of the first rank; the second does nothing wrong.
    const std::map<std::string, std::function<void(Rank&)>> cases = {
        {"none", [](Rank& rank) { rank.gather(rank.all, rank.mine, COUNT); }},
        {"host", [](Rank& rank) { float host[COUNT] = {}; rank.gather(rank.all, reinterpret_cast<uint64_t>(host), COUNT); }},
        {"freed", [](Rank& rank) { cuMemFree_v2(rank.mine); rank.gather(rank.all, rank.mine, COUNT); }},
        {"small", [](Rank& rank) { rank.gather(rank.mine, rank.mine, COUNT); }},
        {"overlap", [](Rank& rank) { rank.gather(rank.all, rank.all + 4, COUNT); }},
        {"counts", [](Rank& rank) { rank.gather(rank.all, rank.mine, COUNT - 1); }},
        {"destroyed", [](Rank& rank) { ncclCommDestroy(rank.comm); rank.gather(rank.all, rank.mine, COUNT); }},
        {"aborted", [](Rank& rank) { ncclCommAbort(rank.comm); rank.gather(rank.all, rank.mine, COUNT); }},
        {"twice-destroyed", [](Rank& rank) { ncclCommDestroy(rank.comm); ncclCommDestroy(rank.comm); }},
        {"twice", [&](Rank& rank) { rank.join(id, 2, 0); }},
        {"numbers", [&](Rank& rank) { rank.join(id, 3, 2); }},
        {"stream", [](Rank& rank) { rank.stream = nullptr; rank.gather(rank.all, rank.mine, COUNT); }},
        {"before", [](Rank& rank) { rank.comm = nullptr; rank.gather(rank.all, rank.mine, COUNT); }},
        {"id", [](Rank& rank) { rank.join(Id{"a"}, 2, 0); }},
        {"rank", [&](Rank& rank) { rank.join(id, 2, 2); }},
        {"context", [&](Rank& rank) { cuCtxSetCurrent(nullptr); rank.join(id, 2, 0); }},
    };
    const std::string name = arguments[1];
    if (name == "other-device") {
        Rank other(1), rank(0);
        rank.join(id, 1, 0);
        rank.stream = other.stream;
        rank.gather(rank.all, rank.mine, COUNT);
    } else if (name == "other-memory") {
        Rank other(1), rank(0);
        rank.join(id, 1, 0);
        rank.gather(rank.all, other.mine, COUNT);
    } else {
        std::thread second([&] {
            Rank rank(1);
            rank.join(id, 2, 1);
            rank.gather(rank.all, rank.mine, COUNT);
        });
        Rank rank(0);
        rank.join(id, 2, 0);
        cases.at(name)(rank);
        // Nobody waits for a second rank that a mistake of the first has left alone.
        if (name == "none") second.join();
        else second.detach(), std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    puts("allowed");
    fflush(stdout);
    _Exit(0);
}

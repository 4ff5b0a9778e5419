// Fibers: see fiber.h.
#include "fiber.h"

#include <cstdint>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#ifdef HARMONIA_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace harmonia_host {

namespace {

#ifdef HARMONIA_ADDRESS_SANITIZER
constexpr size_t STACK_BYTES = 256 * 1024; // frames have redzones
#else
constexpr size_t STACK_BYTES = 64 * 1024;
#endif

std::vector<std::unique_ptr<Stack>> stacks;
std::vector<Stack*> free_stacks;

// Fibers of a block run in turn and touch the same depth of their stacks: without a different offset for each they
// would all compete for the same few cache lines.
size_t colour(size_t number) { return (number % 32) * 128; }

bool add_stack() {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* memory =
        mmap(nullptr, page + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    mprotect(memory, page, PROT_NONE);
    char* base = static_cast<char*>(memory) + page;
    stacks.emplace_back(new Stack{base, STACK_BYTES - colour(stacks.size())});
    free_stacks.push_back(stacks.back().get());
    return true;
}

} // namespace

Stack* take_stack() {
    if (free_stacks.empty() && !add_stack()) {
        return nullptr;
    }
    Stack* stack = free_stacks.back();
    free_stacks.pop_back();
    return stack;
}

void give_stack_back(Stack* stack) { free_stacks.push_back(stack); }

void reclaim_stacks() {
    if (free_stacks.size() == stacks.size()) {
        return;
    }
    free_stacks.clear();
    for (auto stack = stacks.rbegin(); stack != stacks.rend(); ++stack) {
        free_stacks.push_back(stack->get());
#ifdef HARMONIA_ADDRESS_SANITIZER
        // Functions that never returned left the redzones of their frames behind.
        ASAN_UNPOISON_MEMORY_REGION((*stack)->base, (*stack)->size);
#endif
    }
}

#ifdef HARMONIA_SWITCH_BY_UCONTEXT

static void swap_registers(Context& from, Context& to) { swapcontext(&from.registers, &to.registers); }

static void prepare_registers(Context& context, const Stack& stack, void (*run)()) {
    getcontext(&context.registers);
    context.registers.uc_stack.ss_sp = stack.base;
    context.registers.uc_stack.ss_size = stack.size;
    context.registers.uc_link = nullptr;
    makecontext(&context.registers, run, 0);
}

#else

extern "C" __attribute__((visibility("hidden"))) void harmonia_host_switch(void** from, void* to) asm(
    "harmonia_host_switch");

#ifdef __ELF__
#define HARMONIA_FUNCTION ".pushsection .text\n.hidden harmonia_host_switch\n"
#define HARMONIA_FUNCTION_END "\n.popsection\n"
#else
#define HARMONIA_FUNCTION ".text\n"
#define HARMONIA_FUNCTION_END "\n"
#endif

#ifdef __x86_64__
constexpr size_t SAVED_WORDS = 7; // six registers and where to go on
constexpr size_t RESUME_WORD = 6;

// `jmp` and not `ret`: the return predictor knows nothing of fibers, the predictor of indirect jumps does.
asm(HARMONIA_FUNCTION R"(
.globl harmonia_host_switch
.p2align 4
harmonia_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmp *%rcx
)" HARMONIA_FUNCTION_END);
#else
constexpr size_t SAVED_WORDS = 20; // x19 to x30, d8 to d15
constexpr size_t RESUME_WORD = 11; // x30, the link register

asm(HARMONIA_FUNCTION R"(
.globl harmonia_host_switch
.p2align 4
harmonia_host_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    br x30
)" HARMONIA_FUNCTION_END);
#endif

static void swap_registers(Context& from, Context& to) { harmonia_host_switch(&from.stack_pointer, to.stack_pointer); }

static void prepare_registers(Context& context, const Stack& stack, void (*run)()) {
    uintptr_t top = reinterpret_cast<uintptr_t>(stack.base + stack.size) & ~uintptr_t(15);
#ifdef __x86_64__
    top -= 8; // a function starts with the stack 8 bytes off 16: `call` has pushed where to return to
    *reinterpret_cast<uintptr_t*>(top) = 0;
#endif
    uintptr_t* saved = reinterpret_cast<uintptr_t*>(top) - SAVED_WORDS;
    for (size_t word = 0; word < SAVED_WORDS; ++word) {
        saved[word] = 0;
    }
    saved[RESUME_WORD] = reinterpret_cast<uintptr_t>(run);
    context.stack_pointer = saved;
}

#endif

void prepare(Context& context, const Stack& stack, void (*run)()) {
    prepare_registers(context, stack, run);
    context.stack_base = stack.base;
    context.stack_size = stack.size;
}

#ifdef HARMONIA_ADDRESS_SANITIZER

// The context being left. Null base: the stack of the thread that launched, whose bounds the sanitizer knows.
static Context* left = nullptr;

void arrived() {
    const void* base;
    size_t size;
    __sanitizer_finish_switch_fiber(nullptr, &base, &size);
    if (left->stack_base == nullptr) {
        left->stack_base = base;
        left->stack_size = size;
    }
}

void switch_context(Context& from, Context& to) {
    left = &from;
    void* fake_stack = nullptr; // there are none: detect_stack_use_after_return=0
    __sanitizer_start_switch_fiber(&fake_stack, to.stack_base, to.stack_size);
    swap_registers(from, to);
    arrived();
}

#else

void arrived() {}
void switch_context(Context& from, Context& to) { swap_registers(from, to); }

#endif

} // namespace harmonia_host

// The shared object the checkers are in: see module.h.
#include "module.h"
#include "cuda.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <fstream>
#include <iterator>
#include <link.h>

namespace harmonia_host {
namespace checks {

namespace {

// Fills in path, base and constants of the object that contains `grid`, hence the engine and the kernels.
int examine(dl_phdr_info* info, size_t, void* result) {
    Module& module = *static_cast<Module*>(result);
    std::vector<Variable> constants;
    bool ours = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + segment.p_vaddr, end = begin + segment.p_memsz;
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) == 0) {
            constants.push_back(Variable{begin, end, ""});
        }
        if (segment.p_type == PT_GNU_RELRO) { // constants with addresses in them
            constants.push_back(Variable{begin, end, ""});
        }
        const uintptr_t inside = reinterpret_cast<uintptr_t>(&grid);
        ours |= segment.p_type == PT_LOAD && begin <= inside && inside < end;
    }
    if (ours) {
        module.path = info->dlpi_name;
        module.base = info->dlpi_addr;
        module.constants = constants;
    }
    return ours ? 1 : 0;
}

std::string demangled(const char* name) {
    int status = 0;
    char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    const std::string result = text != nullptr ? text : name;
    free(text);
    return result;
}

// `__shared__` variables are statics inside functions, whose mangled names begin with _ZZ; the engine's are not meant.
void find_shared(Module& module) {
    std::ifstream stream(module.path, std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    if (file.size() < sizeof(ElfW(Ehdr))) {
        return;
    }
    const auto& header = *reinterpret_cast<const ElfW(Ehdr)*>(file.data());
    const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(file.data() + header.e_shoff);
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        if (sections[i].sh_type != SHT_SYMTAB) {
            continue;
        }
        const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(file.data() + sections[i].sh_offset);
        const char* names = file.data() + sections[sections[i].sh_link].sh_offset;
        for (size_t s = 0; s < sections[i].sh_size / sizeof(ElfW(Sym)); ++s) {
            const char* name = names + symbols[s].st_name;
            const unsigned section = symbols[s].st_shndx;
            if ((symbols[s].st_info & 15) != STT_OBJECT || strncmp(name, "_ZZ", 3) != 0 ||
                strstr(name, "harmonia_host") != nullptr || section == SHN_UNDEF || section >= header.e_shnum ||
                (sections[section].sh_flags & SHF_WRITE) == 0) {
                continue;
            }
            const uintptr_t begin = module.base + symbols[s].st_value;
            module.shared.push_back(Variable{begin, begin + symbols[s].st_size, demangled(name)});
        }
    }
    std::sort(module.shared.begin(), module.shared.end(),
              [](const Variable& a, const Variable& b) { return a.begin < b.begin; });
}

} // namespace

const Module& module() {
    static const Module module = [] {
        Module found;
        dl_iterate_phdr(examine, &found);
        find_shared(found);
        return found;
    }();
    return module;
}

std::string Module::line(uint32_t offset) const {
    char text[256];
    // The instruction before: a caller's address is that of the one behind the call.
    snprintf(text, sizeof text, "offset 0x%x", offset - 1);
    std::string result = text;
    const std::string command = "addr2line -i -s -e '" + path + "' " + (text + strlen("offset ")) + " 2>/dev/null";
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
        return result;
    }
    // Innermost function first; those of cuda.h stand for the line of the kernel that calls them.
    bool found = false;
    while (fgets(text, sizeof text, pipe) != nullptr) {
        text[strcspn(text, " \n")] = 0; // it may add "(discriminator 2)"
        if (!found && text[0] != '?') {
            result = text;
            found = strncmp(text, "cuda.h:", strlen("cuda.h:")) != 0;
        }
    }
    pclose(pipe);
    return result;
}

} // namespace checks
} // namespace harmonia_host

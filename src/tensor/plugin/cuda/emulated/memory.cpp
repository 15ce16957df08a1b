/*
 * Pieces of memory of the emulated GPU.
 */
#include "tensor/plugin/cuda/emulated/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)   (void)(address), (void)(bytes)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) (void)(address), (void)(bytes)
#endif

#define ALIGNMENT 256

namespace
{

struct node {
    pdl__emulated_piece_t piece;
    node                 *next;
};
node           *nodes;
uint64_t        next_id = 1;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

size_t page_bytes()
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

size_t in_pages(size_t bytes)
{
    return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

pdl_status_t remember(char *memory, size_t bytes, int file)
{
    node *made = (node *)malloc(sizeof(*made));

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    pthread_mutex_lock(&lock);
    *made = {{memory, bytes, file, next_id++}, nodes};
    nodes = made;
    pthread_mutex_unlock(&lock);
    return PDL_OK;
}

/* Takes the piece that begins there out of the list. */
bool forget(const void *memory, pdl__emulated_piece_t *piece)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (node **at = &nodes; *at != NULL && !found; at = found ? at : &(*at)->next) {
        node *here = *at;

        found = here->piece.memory == memory;
        if (!found) continue;
        *piece = here->piece;
        *at = here->next;
        free(here);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

} // namespace

bool pdl__emulated_find(const void *address, pdl__emulated_piece_t *piece)
{
    const char *at = (const char *)address;
    bool        found = false;

    pthread_mutex_lock(&lock);
    for (const node *here = nodes; here != NULL && !found; here = here->next) {
        found = at >= here->piece.memory && at < here->piece.memory + here->piece.bytes;
        if (found) *piece = here->piece;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

size_t pdl__emulated_held()
{
    size_t held = 0;

    pthread_mutex_lock(&lock);
    for (const node *here = nodes; here != NULL; here = here->next)
        if (here->piece.file >= 0) held += here->piece.bytes;
    pthread_mutex_unlock(&lock);
    return held;
}

pdl_status_t pdl__emulated_map(int file, bool own, size_t bytes, void **memory)
{
    size_t       page = page_bytes(), room = in_pages(bytes);
    char        *around = (char *)mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pdl_status_t status = PDL_OK;

    if (around == MAP_FAILED ||
        mmap(around + page, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for %zu bytes", bytes);
    if (!status) status = remember(around + page, bytes, own ? file : PDL__EMULATED_IMPORTED);
    if (status) {
        if (around != MAP_FAILED) munmap(around, room + 2 * page);
        close(file);
        return status;
    }
    if (!own) close(file);
    *memory = around + page;
    ASAN_POISON_MEMORY_REGION(around + page + bytes, room - bytes);
    return PDL_OK;
}

pdl_status_t pdl__emulated_take(bool device, size_t bytes, void **memory)
{
    size_t wanted = bytes > 0 ? bytes : 1;
    int    file;

    *memory = NULL;
    if (!device) {
        *memory = wanted < (size_t)1 << 40 ? aligned_alloc(ALIGNMENT, (wanted / ALIGNMENT + 1) * ALIGNMENT) : NULL;
        return *memory != NULL ? remember((char *)*memory, wanted, PDL__EMULATED_PINNED)
                               : pdl_error(PDL_ERR_NOMEM, "out of memory for %zu bytes", bytes);
    }
    file = memfd_create("paradl-emulated", MFD_CLOEXEC);
    if (file < 0 || wanted > (size_t)1 << 40 || ftruncate(file, (off_t)in_pages(wanted)) != 0) {
        if (file >= 0) close(file);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for %zu bytes", bytes);
    }
    return pdl__emulated_map(file, true, wanted, memory);
}

void pdl__emulated_unmap(void *memory)
{
    pdl__emulated_piece_t piece;
    size_t                page = page_bytes();

    if (memory == NULL || !forget(memory, &piece)) return;
    if (piece.file == PDL__EMULATED_PINNED) {
        free(memory);
        return;
    }
    ASAN_UNPOISON_MEMORY_REGION(piece.memory, in_pages(piece.bytes));
    munmap(piece.memory - page, in_pages(piece.bytes) + 2 * page);
    if (piece.file >= 0) close(piece.file);
}

bool pdl__emulated_pin(void *memory, size_t bytes)
{
    return remember((char *)memory, bytes, PDL__EMULATED_REGISTERED) == PDL_OK;
}

bool pdl__emulated_unpin(void *memory)
{
    pdl__emulated_piece_t piece;

    if (!pdl__emulated_find(memory, &piece) || piece.file != PDL__EMULATED_REGISTERED) return false;
    return forget(memory, &piece);
}

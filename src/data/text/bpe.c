/*
 * Encodes text with byte pairs (Sennrich, Haddow, Birch 2016) over bytes, as GPT-2 does: the text is cut into words,
 * and in each word the neighbours with the lowest rank merge first, until none do.
 *
 * Words are short, but untrusted text may be one word of a gigabyte, so candidates wait in a heap and a word of n bytes
 * takes n log n steps.
 */
#include "data/text/bpe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Positions are 32-bit numbers. */
#define TEXT_LIMIT ((size_t)INT32_MAX)

/* A token of the word in work; -1 in `previous` and `next` stands for an end. */
typedef struct piece {
    int32_t token, previous, next;
} piece_t;

typedef struct candidate {
    int32_t rank, place; /* of the left piece */
    int32_t left, right, merged;
} candidate_t;

typedef struct work {
    const pdl__bpe_t *bpe;
    piece_t          *pieces;
    size_t            piece_room;
    candidate_t      *heap; /* the smallest rank, then the leftmost, on top */
    size_t            waiting, heap_room;
    int32_t          *tokens;
    int64_t           count;
    size_t            token_room;
} work_t;

size_t pdl__utf8_decode(const uint8_t *text, size_t length, uint32_t *character)
{
    static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
    const uint8_t         first = text[0];
    const size_t          more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    uint32_t              value;
    size_t                i;

    *character = first < 0x80 ? first : 0xfffd;
    if (first < 0xc2 || first > 0xf4 || length <= more) return 1;
    value = first & (0x3fu >> more);
    for (i = 1; i <= more; i++) {
        if ((text[i] & 0xc0) != 0x80) return 1;
        value = value << 6 | (text[i] & 0x3fu);
    }
    if (value < smallest[more] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return 1;
    *character = value;
    return more + 1;
}

typedef enum kind { LETTER, NUMBER, SPACE, OTHER } kind_t;

static kind_t kind_at(const uint8_t *text, size_t length, size_t *bytes)
{
    uint32_t c;

    *bytes = pdl__utf8_decode(text, length, &c);
    if (pdl__unicode_is_letter(c)) return LETTER;
    if (pdl__unicode_is_number(c)) return NUMBER;
    return pdl__unicode_is_space(c) ? SPACE : OTHER;
}

/* How far characters of one kind reach from `from` on; *last is where the last of them begins. */
static size_t run_of(const uint8_t *text, size_t length, size_t from, kind_t kind, size_t *last)
{
    size_t at = from, bytes;

    *last = from;
    while (at < length && kind_at(text + at, length - at, &bytes) == kind) {
        *last = at;
        at += bytes;
    }
    return at;
}

static size_t contraction(const uint8_t *text, size_t length)
{
    static const char *const ends[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    size_t                   i;

    for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        const size_t size = strlen(ends[i]);

        if (length >= size && memcmp(text, ends[i], size) == 0) return size;
    }
    return 0;
}

size_t pdl__bpe_word(const uint8_t *text, size_t length)
{
    const size_t space = length > 1 && text[0] == ' ';
    size_t       bytes, last, end = contraction(text, length);
    kind_t       kind;

    if (end > 0) return end;
    kind = kind_at(text + space, length - space, &bytes);
    if (kind != SPACE) return run_of(text, length, space, kind, &last);
    /* Of several blanks before a word the last one stays with the word; a single one goes alone. */
    end = run_of(text, length, 0, SPACE, &last);
    return end < length && last > 0 ? last : end;
}

static bool before(const candidate_t *a, const candidate_t *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->place < b->place;
}

static pdl_status_t heap_push(work_t *work, candidate_t added)
{
    size_t at = work->waiting;

    if (work->waiting == work->heap_room) {
        const size_t room = work->heap_room == 0 ? 64 : work->heap_room * 2;
        candidate_t *larger = realloc(work->heap, room * sizeof(*larger));

        if (larger == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory while encoding text");
        work->heap = larger;
        work->heap_room = room;
    }
    work->waiting++;
    while (at > 0 && before(&added, &work->heap[(at - 1) / 2])) {
        work->heap[at] = work->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    work->heap[at] = added;
    return PDL_OK;
}

static candidate_t heap_pop(work_t *work)
{
    const candidate_t top = work->heap[0], moved = work->heap[--work->waiting];
    size_t            at = 0, child;

    while ((child = 2 * at + 1) < work->waiting) {
        if (child + 1 < work->waiting && before(&work->heap[child + 1], &work->heap[child])) child++;
        if (!before(&work->heap[child], &moved)) break;
        work->heap[at] = work->heap[child];
        at = child;
    }
    work->heap[at] = moved;
    return top;
}

/* Queues the merge of the piece at `place` with the one after it, if they merge. */
static pdl_status_t consider(work_t *work, int32_t place)
{
    candidate_t found = {.place = place};
    int32_t     next;

    if (place < 0 || (next = work->pieces[place].next) < 0) return PDL_OK;
    found.left = work->pieces[place].token;
    found.right = work->pieces[next].token;
    if (!pdl__bpe_merge(work->bpe, found.left, found.right, &found.rank, &found.merged)) return PDL_OK;
    return heap_push(work, found);
}

/* Candidates whose pieces have merged otherwise meanwhile are stale; a piece that is gone has token -1. */
static pdl_status_t merge_all(work_t *work)
{
    pdl_status_t st = PDL_OK;

    while (work->waiting > 0 && st == PDL_OK) {
        const candidate_t best = heap_pop(work);
        piece_t          *piece = &work->pieces[best.place];
        int32_t           next = piece->next;

        if (piece->token != best.left || next < 0 || work->pieces[next].token != best.right) continue;
        piece->token = best.merged;
        piece->next = work->pieces[next].next;
        work->pieces[next].token = -1;
        if (piece->next >= 0) work->pieces[piece->next].previous = best.place;
        st = consider(work, piece->previous);
        if (st == PDL_OK) st = consider(work, best.place);
    }
    return st;
}

static pdl_status_t reserve(work_t *work, size_t word)
{
    if (word > work->piece_room) {
        const size_t room = word > SIZE_MAX / 2 / sizeof(piece_t) ? word : word * 2;
        piece_t     *larger = realloc(work->pieces, room * sizeof(*larger));

        if (larger == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory while encoding text");
        work->pieces = larger;
        work->piece_room = room;
    }
    if (word > work->token_room - (size_t)work->count) {
        const size_t room = work->token_room * 2 + word;
        int32_t     *larger = realloc(work->tokens, room * sizeof(*larger));

        if (larger == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory while encoding text");
        work->tokens = larger;
        work->token_room = room;
    }
    return PDL_OK;
}

static pdl_status_t encode_word(work_t *work, const uint8_t *word, size_t length, const char *name)
{
    pdl_status_t st = reserve(work, length);
    int32_t      i;

    if (st != PDL_OK) return st;
    for (i = 0; i < (int32_t)length; i++) {
        const int32_t token = pdl__bpe_byte(work->bpe, word[i]);

        if (token < 0) {
            return pdl_error(PDL_ERR_INPUT, "%s: the vocabulary has no token for the byte 0x%02x; give another one",
                             name, word[i]);
        }
        work->pieces[i] = (piece_t){token, i - 1, i + 1 < (int32_t)length ? i + 1 : -1};
    }
    for (i = 0; i + 1 < (int32_t)length && st == PDL_OK; i++) st = consider(work, i);
    if (st == PDL_OK) st = merge_all(work);
    work->waiting = 0;
    if (st != PDL_OK) return st;
    for (i = 0; i >= 0; i = work->pieces[i].next) work->tokens[work->count++] = work->pieces[i].token;
    return PDL_OK;
}

pdl_status_t pdl__bpe_encode(const pdl__bpe_t *bpe, const uint8_t *text, size_t length, const char *name,
                             int32_t **tokens, int64_t *count)
{
    work_t       work = {.bpe = bpe};
    size_t       at = 0;
    pdl_status_t st = PDL_OK;

    if (length > TEXT_LIMIT) {
        return pdl_error(PDL_ERR_LIMIT, "%s: more than 2 GiB of text: encode it once into a .bin file of tokens",
                         name);
    }
    while (at < length && st == PDL_OK) {
        const size_t word = pdl__bpe_word(text + at, length - at);

        st = encode_word(&work, text + at, word, name);
        at += word;
    }
    free(work.pieces);
    free(work.heap);
    if (st != PDL_OK) {
        free(work.tokens);
        return st;
    }
    *tokens = work.tokens;
    *count = work.count;
    return PDL_OK;
}

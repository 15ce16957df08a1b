/*
 * Connections between ranks that watch each other.
 */
#ifndef PDL_COMM_WATCH_LINKS_H
#define PDL_COMM_WATCH_LINKS_H

#include "comm/watch/frames.h"

#define PDL__MEETING_ADDRESSES 8

/* Where rank 0 listens, and the word that lets a rank in; all ranks get these bytes over MPI. */
typedef struct pdl__meeting {
    uint16_t       port; /* 0: nowhere */
    int            addresses;
    uint32_t       address[PDL__MEETING_ADDRESSES]; /* IPv4, as the network has them */
    unsigned char  token[PDL__TOKEN_BYTES];
    pdl__process_t process; /* rank 0 */
} pdl__meeting_t;

/* Listens on this machine alone, or on all its networks; returns a socket, or -1. */
int pdl__meeting_open(bool one_node, int ranks, pdl__meeting_t *meeting);
/* A connection to it that has said hello, or -1. */
int pdl__meeting_join(const pdl__meeting_t *meeting, int rank);
/* The next one that wants to join, which need not be a rank, or -1. */
int            pdl__meeting_accept(int listener);
pdl__process_t pdl__process_self(void);
/* Seconds of processor time that a process of this machine has used, this one or another, and whether its first thread
   wants more right now; -1: it is stopped, or nobody knows. */
double pdl__process_used_s(const pdl__process_t *process, bool *ready);
/* Ends a process of this machine that cannot end by itself. */
void pdl__process_kill(const pdl__process_t *process);
/* Compares without saying by its duration where a difference is. */
bool pdl__meeting_knows(const pdl__meeting_t *meeting, const pdl__frame_t *hello);

#endif

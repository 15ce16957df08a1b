/*
 * What a rank knows of its launcher.
 */
#ifndef PDL_COMM_LAUNCH_H
#define PDL_COMM_LAUNCH_H

#include <stdbool.h>

/* How many ranks the launcher has started, by the environment; 0: not known. */
int pdl__launch_size(void);

/* Whether this rank may print why the job fails: the first one that asks in a job of ours, every one elsewhere. It
   is about to end, and SIGTERM no longer hastens that. */
bool pdl__launch_claim(void);

/* What a rank tells its launcher of ranks that are lost; the first report counts, and remarks add to it. Where there is
   no launcher of ours, nothing happens. */
typedef struct pdl__launch_loss {
    bool died;      /* the launcher knows what of; else they were stopped, or hang */
    int  count;     /* ranks; 0: nobody knows */
    char who[80];   /* "rank 2" */
    char text[512]; /* died: where the rank was; else the whole sentence */
    char remark[512];
} pdl__launch_loss_t;
bool pdl__launch_reports(void); /* whether there is a launcher that speaks for the ranks */
void pdl__launch_report(const pdl__launch_loss_t *loss);
void pdl__launch_remark(const char *remark);

/* The ranks have found each other, from when on they watch themselves; they have left each other, and only end. */
void pdl__launch_started(void);
void pdl__launch_finished(void);

/* How pdl_launch_local() tells its ranks. */
#define PDL__ENV_RANKS    "PARADL_LAUNCH_RANKS"    /* their number */
#define PDL__ENV_NOTE     "PARADL_LAUNCH_NOTE"     /* a file that the rank removes which says why the job fails */
#define PDL__LOSS_SUFFIX  ".lost"                  /* of the file beside it that says which ranks are lost */
#define PDL__UP_SUFFIX    ".up"                    /* of the file beside it that is there once the ranks are */
#define PDL__DOWN_SUFFIX  ".down"                  /* of that which is there once they have left each other */
#define PDL__ENV_TERMINAL "PARADL_LAUNCH_TERMINAL" /* streams of the first process that are terminals: "12" */

#endif

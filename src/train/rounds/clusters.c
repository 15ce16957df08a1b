/*
 * Similarity of updates, components of the graph it makes, and shares that give every component the same.
 *
 * A step moves the row of class c by sum over samples of (1[label = c] - p_c) features. Rows of classes that a worker
 * has move towards its features, all others away from them; and where features are not negative these others point
 * the same way at every worker. So the cosine is taken over rows of classes that one of the two has, and over all of
 * these at once: a row that hardly moves counts little.
 */
#include "train/rounds/clusters.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static bool has_class(const pdl__update_t *change, int64_t class)
{
    return !change->bias || change->bias[class] > 0;
}

void pdl__add_overlap(int64_t classes, int64_t features, const pdl__update_t *a, const pdl__update_t *b,
                      pdl__overlap_t *of_a, pdl__overlap_t *of_b)
{
    double product = 0;

    for (int64_t c = 0; c < classes; c++) {
        if (!has_class(a, c) && !has_class(b, c)) continue;
        for (int64_t i = c * features; i < (c + 1) * features; i++) {
            product += (double)a->weight[i] * (double)b->weight[i];
            of_a->energy += (double)a->weight[i] * (double)a->weight[i];
            of_b->energy += (double)b->weight[i] * (double)b->weight[i];
        }
    }
    of_a->product += product;
    of_b->product += product;
}

double pdl__likeness(const pdl__overlap_t *of_a, const pdl__overlap_t *of_b)
{
    if (of_a->energy == 0 || of_b->energy == 0) return of_a->energy == of_b->energy;
    return of_a->product / sqrt(of_a->energy * of_b->energy);
}

static int falling(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/* The similarities at which single workers and groups join, as the threshold falls: edges of a widest spanning tree
   (Prim), between 0 and 1. */
static void find_joints(int64_t workers, const double *similarity, double *nearest, double *joint)
{
    int64_t latest = 0;

    for (int64_t w = 0; w < workers; w++) nearest[w] = -INFINITY;
    nearest[0] = NAN; /* in the tree */
    for (int64_t k = 0; k < workers - 1; k++) {
        int64_t next = -1;
        for (int64_t w = 0; w < workers; w++) {
            if (isnan(nearest[w])) continue;
            nearest[w] = fmax(nearest[w], similarity[latest * workers + w]);
            if (next < 0 || nearest[w] > nearest[next]) next = w;
        }
        joint[k] = fmin(1, fmax(0, nearest[next]));
        nearest[next] = NAN;
        latest = next;
    }
}

double pdl__widest_gap(int64_t workers, const double *similarity, double *work)
{
    double *joint = work + workers, above = 1, widest = -1, middle = 0.5;

    find_joints(workers, similarity, work, joint);
    joint[workers - 1] = 0;
    qsort(joint, (size_t)workers, sizeof(*joint), falling);
    for (int64_t k = 0; k < workers; k++) {
        if (above - joint[k] >= widest) {
            widest = above - joint[k];
            middle = (above + joint[k]) / 2;
        }
        above = joint[k];
    }
    return middle;
}

int64_t pdl__find_clusters(int64_t workers, const double *similarity, double threshold, int64_t *cluster)
{
    int64_t clusters = 0;

    for (int64_t w = 0; w < workers; w++) cluster[w] = -1;
    for (int64_t first = 0; first < workers; first++) {
        if (cluster[first] >= 0) continue;
        cluster[first] = clusters;
        /* Sweeps until nobody joins: as many as the component is long, with no memory taken. */
        for (int64_t joined = 1; joined > 0;) {
            joined = 0;
            for (int64_t u = 0; u < workers; u++) {
                if (cluster[u] != clusters) continue;
                for (int64_t v = 0; v < workers; v++)
                    if (cluster[v] < 0 && similarity[u * workers + v] > threshold) {
                        cluster[v] = clusters;
                        joined++;
                    }
            }
        }
        clusters++;
    }
    return clusters;
}

void pdl__cluster_shares(int64_t workers, int64_t clusters, const int64_t *cluster, const double *samples,
                         double *share)
{
    for (int64_t w = 0; w < workers; w++) {
        double all = 0;
        for (int64_t v = 0; v < workers; v++)
            if (cluster[v] == cluster[w]) all += samples[v];
        share[w] = samples[w] / all / (double)clusters;
    }
}

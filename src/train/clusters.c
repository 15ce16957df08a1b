/*
 * Similarity of updates, components of the graph it makes, and shares that give every component the same.
 */
#include "train/clusters.h"
#include <math.h>

static double row_cosine(int64_t features, const float *a, const float *b)
{
    double ab = 0, aa = 0, bb = 0;

    for (int64_t i = 0; i < features; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    if (aa == 0 || bb == 0) return aa == bb;
    return ab / sqrt(aa * bb);
}

double pdl__update_similarity(int64_t classes, int64_t features, const float *a, const float *b)
{
    double sum = 0;

    for (int64_t c = 0; c < classes; c++) sum += row_cosine(features, a + c * features, b + c * features);
    return sum / (double)classes;
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

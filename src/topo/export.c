/*
 * Topologies for other programs: Graphviz, and platform files of SimGrid.
 */
#include "topo/metrics.h"

#include <stdio.h>

#define MOST_EXPORTED_HOSTS 1024

static pdl_status_t finish(FILE *stream)
{
    if (fflush(stream) == 0 && !ferror(stream)) return PDL_OK;
    return pdl_error(PDL_ERR_IO, "writing the topology failed");
}

/* A name between quotes: what would end it is left out. */
static void write_quoted(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text != '"' && *text != '\\' && *text != '\n' && *text != '<' && *text != '&') fputc(*text, stream);
}

static void write_vertex(const pdl_topology_t *topology, FILE *stream, int vertex)
{
    if (vertex < topology->hosts)
        fprintf(stream, "h%d", vertex);
    else
        fprintf(stream, "s%d", vertex - topology->hosts);
}

pdl_status_t pdl_topology_write_dot(const pdl_topology_t *topology, FILE *stream)
{
    fprintf(stream, "digraph \"");
    write_quoted(stream, topology->name);
    fprintf(stream, "\" {\n    node [shape=circle];\n    edge [dir=both];\n");
    for (int v = topology->hosts; v < topology->vertices; v++) {
        fprintf(stream, "    ");
        write_vertex(topology, stream, v);
        fprintf(stream, " [shape=box];\n");
    }
    for (int v = 0; v < topology->hosts; v++) fprintf(stream, "    h%d;\n", v);
    for (int i = 0; i < topology->link_count; i++) {
        const pdl_link_t *link = &topology->links[i];
        bool              back = i + 1 < topology->link_count && link[1].way_back,
             failed = topology->failed != NULL && topology->failed[i];
        if (link->kind == PDL_LINK_INTERNAL || link->way_back) continue; /* drawn with its first direction */
        fprintf(stream, "    ");
        write_vertex(topology, stream, link->src);
        fprintf(stream, " -> ");
        write_vertex(topology, stream, link->dst);
        fprintf(stream, " [label=\"%g GB/s\"%s%s];\n", link->bytes_per_s / 1e9,
                back || link->both_ways ? "" : ", dir=forward", failed ? ", style=dashed" : "");
    }
    fprintf(stream, "}\n");
    return finish(stream);
}

static void write_routes(const pdl_topology_t *topology, FILE *stream)
{
    int links[PDL_MAX_ROUTE];

    /* Grouped by destination, which is what searched routes are kept by. */
    for (int dst = 0; dst < topology->hosts; dst++)
        for (int src = 0; src < topology->hosts; src++) {
            int count = pdl_topology_route(topology, src, dst, links);
            if (src == dst) continue;
            fprintf(stream, "    <route src=\"h%d\" dst=\"h%d\" symmetrical=\"NO\">", src, dst);
            for (int i = 0; i < count; i++) fprintf(stream, "<link_ctn id=\"l%d\"/>", links[i]);
            fprintf(stream, "</route>\n");
        }
}

pdl_status_t pdl_topology_write_simgrid(const pdl_topology_t *topology, FILE *stream)
{
    if (topology->hosts > MOST_EXPORTED_HOSTS)
        return pdl_error(PDL_ERR_LIMIT,
                         "a SimGrid platform holds a route for every pair of hosts; %d hosts are too many, "
                         "at most %d can be written",
                         topology->hosts, MOST_EXPORTED_HOSTS);
    fprintf(stream, "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                    "<platform version=\"4.1\">\n  <zone id=\"");
    write_quoted(stream, topology->name);
    fprintf(stream, "\" routing=\"Full\">\n");
    for (int host = 0; host < topology->hosts; host++)
        fprintf(stream, "    <host id=\"h%d\" speed=\"1Gf\"/>\n", host);
    for (int i = 0; i < topology->link_count; i++) {
        const pdl_link_t *link = &topology->links[i];
        fprintf(stream,
                "    <link id=\"l%d\" bandwidth=\"%.17gBps\" latency=\"%.17gs\" sharing_policy=\"SHARED\"/>\n", i,
                link->bytes_per_s, link->latency_s);
    }
    write_routes(topology, stream);
    fprintf(stream, "  </zone>\n</platform>\n");
    return finish(stream);
}

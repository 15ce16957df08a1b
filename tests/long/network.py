#!/usr/bin/env python3
"""A real network out of Linux network namespaces: a namespace for every host and switch of a topology, a shaped pair of virtual
interfaces for every cable, and the routes of the simulator, each by source and destination.

    network.py up PARADL SHAPE.yaml HOST_MBIT LINK_MBIT      network.py down

Hosts are the namespaces pdlh0, pdlh1, .. with addresses 10.77.0.1, .. on their interface eth0. Needs root and iproute2."""
import os
import re
import subprocess
import sys

# What a bucket of tbf holds passes a cable in no time, which helps messages that are not much larger: MTU=576 BURST=600b leaves them
# one small packet, for three times as many packets.
MTU, BURST, QUEUE = (os.environ.get(name, usual) for name, usual in (("MTU", "1500"), ("BURST", "16kb"), ("QUEUE", "200ms")))


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def batch(space, lines):
    if lines:
        subprocess.run(["ip", "-n", space, "-batch", "-"], input="\n".join(lines), text=True, check=True)


def space_of(vertex):
    return "pdl" + vertex


def address(host):
    return f"10.77.0.{int(host[1:]) + 1}"


def read(paradl, shape):
    def show(form):
        return subprocess.run([paradl, "topo", "show", shape, "--format", form], check=True, capture_output=True,
                              text=True).stdout

    dot = show("dot")
    cables = [m.groups() for m in re.finditer(r"^ +(\w+) -> (\w+) \[", dot, re.M)]
    routes = [(m.group(1), m.group(2), [int(n) for n in re.findall(r'link_ctn id="l(\d+)"', m.group(3))])
              for m in re.finditer(r'<route src="(\w+)" dst="(\w+)"[^>]*>(.*?)</route>', show("simgrid"))]
    return cables, routes


def mac(cable, end):
    return f"02:00:00:00:{cable:02x}:{end:02x}"


def up(paradl, shape, host_mbit, link_mbit):
    down()
    cables, routes = read(paradl, shape)
    vertices = sorted({v for cable in cables for v in cable})
    for v in vertices:
        run("ip", "netns", "add", space_of(v))
        batch(space_of(v), ["link set lo up"] + ([
            "link add eth0 type veth peer name eth0p", "link set eth0p up", f"addr add {address(v)}/24 dev eth0", "link set eth0 up"] if v[0] == "h" else []))
        run("ip", "netns", "exec", space_of(v), "sysctl", "-qw", "net.ipv4.ip_forward=1",
            "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0",
            # A control that models the path (bbr) takes the way back of an exchange for the path, and sends at half of the rate.
            "net.ipv4.tcp_congestion_control=reno", "net.ipv4.tcp_slow_start_after_idle=0")
    for c, (a, b) in enumerate(cables):
        rate = host_mbit if "h" in (a[0], b[0]) and a[0] != b[0] else link_mbit
        run("ip", "-n", space_of(a), "link", "add", f"c{c}a", "address", mac(c, 0), "type", "veth", "peer", "name",
            f"c{c}b", "address", mac(c, 1), "netns", space_of(b))
        for vertex, name, other in ((a, f"c{c}a", mac(c, 1)), (b, f"c{c}b", mac(c, 0))):
            space = space_of(vertex)
            batch(space, [f"link set {name} mtu {MTU} up", f"neigh replace 169.254.1.1 lladdr {other} dev {name} nud permanent"])
            subprocess.run(["ip", "netns", "exec", space, "ethtool", "-K", name, "tso", "off", "gso", "off", "gro", "off"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            run("tc", "-n", space, "qdisc", "add", "dev", name, "root", "tbf", "rate", f"{rate}mbit", "burst", BURST,
                "latency", QUEUE)
    lines = {v: [] for v in vertices}
    rules = {v: set() for v in vertices}
    for src, dst, links in routes:
        at = src
        for link in links:
            cable, back = link // 2, link % 2
            leaves = cables[cable][1 if back else 0]
            if leaves != at:  # a link of a route begins where the one before has ended
                sys.exit(f"route {src} {dst}: link {link} does not begin at {at}")
            device, table = f"c{cable}{'b' if back else 'a'}", 100 + int(src[1:])
            way = f"via 169.254.1.1 dev {device} onlink"
            lines[at].append(f"route replace {address(dst)}/32 {way} table {table}" +
                             (f" src {address(src)}" if at == src else ""))
            if at == src:
                lines[at].append(f"route replace {address(dst)}/32 {way} src {address(src)}")
            rules[at].add((address(src), table))
            at = cables[cable][0 if back else 1]
    for v in vertices:
        batch(space_of(v), lines[v] + [f"rule add from {a} lookup {t}" for a, t in sorted(rules[v])])
    print(f"{sum(v[0] == 'h' for v in vertices)} hosts, {sum(v[0] != 'h' for v in vertices)} switches, "
          f"{len(cables)} cables")


def down():
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split("\n")
    for name in (line.split(" ")[0] for line in names):
        if re.fullmatch(r"pdl[hs]\d+", name):
            run("ip", "netns", "del", name)


if __name__ == "__main__":
    up(*sys.argv[2:]) if sys.argv[1] == "up" else down()

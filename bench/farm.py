"""Clients, something between, and nodes, in a network namespace each: for bench/kills and bench/soak-roles."""
import os
import subprocess


class Farm:
    """Clients, forwarder and nodes, in a network namespace each."""

    def __init__(self, name):
        pid = os.getpid()
        self.names = {end: f"{name}-{end}-{pid}" for end in ("c", "f", "n")}
        for name in self.names.values():
            self.ip("netns", "add", name)
        for end, here, there, address in (("c", "c0", "f0", "10.9.1.7/24"), ("n", "s0", "f1", "10.9.2.2/24")):
            self.inside("f", "link", "add", there, "type", "veth", "peer", "name", here, "netns", self.names[end])
            self.inside(end, "link", "set", here, "up")
            self.inside(end, "addr", "add", address, "dev", here)
            self.inside("f", "link", "set", there, "up")
            subprocess.run(self.command(end, "ethtool", "-K", here, "gro", "on", "tx", "off"), stdout=subprocess.DEVNULL)

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True)

    def inside(self, end, *words):
        self.ip("-n", self.names[end], *words)

    def command(self, end, *words):
        return ["ip", "netns", "exec", self.names[end], *map(str, words)]

    def close(self):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)

"""A lab of nfs-ganesha and clients (crates/test/nfs-lab/up), networks between them, and captures at the client: for bench/replay."""
import contextlib
import os
import pathlib
import subprocess
import sys
import time

LAB = pathlib.Path(__file__).resolve().parent.parent / "crates/test/nfs-lab"


def sh(*words, **options):
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit status {ran.returncode}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.stdout


class Network:
    """What is between client and server: words for `emulate` and `predict`, or for the kernel's tbf."""

    def __init__(self, name, emulate, tbf=None):
        self.name, self.emulate, self.tbf = name, emulate, tbf


class Lab:
    def __init__(self, name, lineside, folder, congestion, is_first=False):
        self.lineside, self.folder, self.congestion, self.number = lineside, folder, congestion, 0
        # Server, link and clients run before all others of the machine, which else would disturb them.
        self.first = ["chrt", "-f", "20"] if is_first else []
        self.environment = os.environ | {"LINESIDE_LAB_NAME": name}
        # `emulate --on` has the client's packets pass this device before the link, and after it on their way back.
        self.device = None
        common = sh("bash", "-c", f". {LAB}/common.sh; echo $client $client_link $server $server_link $state", env=self.environment)
        self.client, self.client_link, self.server, self.server_link, state = common.split()
        self.files = pathlib.Path(state) / "files"

    def up(self):
        subprocess.run([LAB / "down"], env=self.environment, capture_output=True)
        sh(LAB / "up", env=self.environment)
        for namespace in (self.client, self.server):
            sh("ip", "netns", "exec", namespace, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={self.congestion}")
        if self.first:
            sh("chrt", "-a", "-f", "-p", "20", (self.files.parent / "ganesha.pid").read_text().strip())

    def down(self):
        subprocess.run([LAB / "down"], env=self.environment, capture_output=True)

    def at_client(self, *words):
        return sh("ip", "netns", "exec", self.client, *self.first, *words, env=self.environment)

    def captured(self, *words):
        """Runs a command at the client; the trace of what passed there, and what the command printed."""
        self.number += 1
        pcap, trace = self.folder / f"{self.number}.pcap", self.folder / f"{self.number}"
        tcpdump = subprocess.Popen(["ip", "netns", "exec", self.client, *self.first, "tcpdump", "-Z", "root", "-i", self.device or self.client_link,
                                    "-U", "--immediate-mode", "-B", "65536", "-n", "--time-stamp-precision=nano", "-w", pcap, "tcp or udp"],
                                   stderr=subprocess.PIPE, text=True)
        while "listening on" not in (line := tcpdump.stderr.readline()):
            if not line:
                sys.exit("tcpdump ended")
        printed = self.at_client(*words)
        time.sleep(0.3)
        tcpdump.terminate()
        dropped = [line for line in tcpdump.communicate()[1].splitlines() if "dropped by kernel" in line]
        if dropped and not dropped[0].startswith("0 "):
            print(f"tcpdump: {dropped[0]}: {words}", file=sys.stderr)
        sh(self.lineside, "capture", pcap, "-q", "-o", trace)
        if not os.environ.get("LINESIDE_KEEP_PCAP"):
            pcap.unlink()
        return trace, printed

    @contextlib.contextmanager
    def over(self, network):
        """Has this network between client and server."""
        links = [(self.client, self.client_link), (self.server, self.server_link)]
        if network.tbf:
            for namespace, link in links:
                sh("ip", "netns", "exec", namespace, "tc", "qdisc", "add", "dev", link, "root", "tbf", *network.tbf.split())
            try:
                yield
            finally:
                for namespace, link in links:
                    sh("ip", "netns", "exec", namespace, "tc", "qdisc", "del", "dev", link, "root")
            return
        emulate = subprocess.Popen(["ip", "netns", "exec", self.client, *self.first, self.lineside, "emulate", "--on", self.client_link,
                                    *network.emulate, "--seed", str(self.number), "-d", "900s"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            self.device = "lineside0"
            for _ in range(100):
                time.sleep(0.1)
                if emulate.poll() is not None:
                    sys.exit(f"emulate: {emulate.stderr.read()}")
                if subprocess.run(["ip", "-n", self.client, "link", "show", "up", "dev", self.device], capture_output=True).stdout:
                    break
            time.sleep(1)   # it calibrates
            yield
        finally:
            self.device = None
            emulate.terminate()
            emulate.wait()

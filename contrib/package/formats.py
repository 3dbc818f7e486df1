"""The formats that contrib/package/build writes, from one list of files: tar.xz, .deb, .rpm, an OCI image, a Python wheel.

Each is written here and not by the tools of a distribution, so that one machine makes them all. Equal files and an equal time
make equal bytes: no other time, owner, mask or order of this machine goes in."""
import base64
import collections
import gzip
import hashlib
import io
import json
import lzma
import struct
import tarfile
import zipfile

# A file of a package: its path without a slash in front, its mode, its bytes. A folder has None for bytes.
Entry = collections.namedtuple("Entry", "path mode data")


def with_folders(entries):
    """The entries with each folder above them, in the order of their paths."""
    all_ = {entry.path: entry for entry in entries}
    for entry in entries:
        parts = entry.path.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            path = "/".join(parts[:end])
            all_.setdefault(path, Entry(path, 0o755, None))
    return [all_[path] for path in sorted(all_)]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Writer:
    """Writes packages whose files are all of the time `at` (seconds since 1970)."""

    def __init__(self, about, at, is_fast):
        self.about = about
        self.at = at
        # Of a test: it looks at what is in a package, not at its size.
        self.preset = 0 if is_fast else 6
        self.level = 1 if is_fast else 9

    def xz(self, data):
        return lzma.compress(data, format=lzma.FORMAT_XZ, preset=self.preset)

    def tar(self, entries, prefix=""):
        room = io.BytesIO()
        with tarfile.open(fileobj=room, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for entry in with_folders(entries):
                info = tarfile.TarInfo(prefix + entry.path)
                info.mode, info.mtime = entry.mode, self.at
                info.uname = info.gname = "root"
                if entry.data is None:
                    info.type = tarfile.DIRTYPE
                    tar.addfile(info)
                else:
                    info.size = len(entry.data)
                    tar.addfile(info, io.BytesIO(entry.data))
        return room.getvalue()

    def tar_xz(self, folder, entries):
        return self.xz(self.tar([entry._replace(path=f"{folder}/{entry.path}") for entry in entries]))

    def deb(self, architecture, entries, scripts, conffiles):
        """deb(5): an ar archive of a version, the package's description and its files."""
        files = [entry for entry in entries if entry.data is not None]
        size_kib = sum((len(entry.data) + 1023) // 1024 for entry in files)
        control = (
            f"Package: {self.about['name']}\nVersion: {self.about['version']}\nArchitecture: {architecture}\n"
            f"Maintainer: {self.about['maintainer']}\nInstalled-Size: {size_kib}\nSection: net\nPriority: optional\n"
            f"Homepage: {self.about['homepage']}\nRecommends: systemd\nDescription: {self.about['summary']}\n"
            + "".join(f" {line}\n" for line in self.about["description"])
        )
        sums = "".join(
            f"{hashlib.md5(entry.data).hexdigest()}  {entry.path}\n" for entry in files if entry.path not in conffiles
        )
        inside = [
            Entry("control", 0o644, control.encode()),
            Entry("conffiles", 0o644, "".join(f"/{path}\n" for path in conffiles).encode()),
            Entry("md5sums", 0o644, sums.encode()),
            *(Entry(name, 0o755, f"#!/bin/sh\nset -e\n{text}".encode()) for name, text in scripts.items()),
        ]
        members = [
            ("debian-binary", b"2.0\n"),
            ("control.tar.xz", self.xz(self.tar(inside, "./"))),
            ("data.tar.xz", self.xz(self.tar(entries, "./"))),
        ]
        archive = b"!<arch>\n"
        for name, data in members:
            archive += f"{name:<16}{self.at:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
            archive += data + b"\n" * (len(data) % 2)
        return archive

    def rpm(self, architecture, entries, scripts, conffiles):
        """Version 4 of the format, as the RPM manual's "Package format" has it: lead, signature, header, cpio."""
        own = ("usr/share/doc/lineside", "etc/lineside")
        entries = [entry for entry in with_folders(entries) if entry.data is not None or entry.path.startswith(own)]
        payload = self.xz(self.cpio(entries))
        header = rpm_header(63, self.rpm_tags(architecture, entries, scripts, conffiles, payload))
        signature = rpm_header(62, {
            269: ("text", hashlib.sha1(header).hexdigest()),
            273: ("text", sha256(header)),
            1000: ("int32", [len(header) + len(payload)]),
            1004: ("bytes", hashlib.md5(header + payload).digest()),
        })
        name = f"{self.about['name']}-{self.about['version']}-1".encode()
        lead = struct.pack(">4sBBHH66sHH16x", b"\xed\xab\xee\xdb", 3, 0, 0, 1, name, 1, 5)
        return lead + signature + b"\0" * (-len(signature) % 8) + header + payload

    def cpio(self, entries):
        out = io.BytesIO()

        def member(number, name, mode, data):
            name = name.encode() + b"\0"
            fields = (number, mode, 0, 0, 1, self.at if data is not None else 0, len(data or b""), 0, 0, 0, 0, len(name), 0)
            out.write(b"070701" + b"".join(b"%08x" % field for field in fields) + name)
            out.write(b"\0" * (-(110 + len(name)) % 4))
            out.write((data or b"") + b"\0" * (-len(data or b"") % 4))

        for number, entry in enumerate(entries, 1):
            member(number, f"./{entry.path}", unix_mode(entry), entry.data)
        member(0, "TRAILER!!!", 0, None)
        return out.getvalue()

    def rpm_tags(self, architecture, entries, scripts, conffiles, payload):
        about = self.about
        folders = sorted({"/" + entry.path.rpartition("/")[0] + "/" for entry in entries})
        size = sum(len(entry.data or b"") for entry in entries)
        # Flags of a dependency: EQUAL 8, LESS 2; INTERP 256, a script's shell; RPMLIB 1 << 24.
        rpmlib = 1 << 24 | 2 | 8
        needs = [
            ("/bin/sh", 256, ""),
            ("rpmlib(CompressedFileNames)", rpmlib, "3.0.4-1"),
            ("rpmlib(FileDigests)", rpmlib, "4.6.0-1"),
            ("rpmlib(PayloadFilesHavePrefix)", rpmlib, "4.0-1"),
            ("rpmlib(PayloadIsXz)", rpmlib, "5.2-1"),
        ]
        names = {"postinst": (1024, 1086), "prerm": (1025, 1087), "postrm": (1026, 1088)}
        count = len(entries)
        tags = {
            100: ("texts", ["C"]),
            1000: ("text", about["name"]),
            1001: ("text", about["version"]),
            1002: ("text", "1"),
            1004: ("i18n", about["summary"]),
            1005: ("i18n", "\n".join(about["description"])),
            1006: ("int32", [self.at]),
            1007: ("text", "localhost"),
            1009: ("int32", [size]),
            1011: ("text", about["maintainer"]),
            1014: ("text", about["licence"]),
            1016: ("i18n", "Applications/Internet"),
            1020: ("text", about["homepage"]),
            1021: ("text", "linux"),
            1022: ("text", architecture),
            1028: ("int32", [len(entry.data) if entry.data is not None else 4096 for entry in entries]),
            1030: ("int16", [unix_mode(entry) for entry in entries]),
            1033: ("int16", [0] * count),
            1034: ("int32", [self.at] * count),
            1035: ("texts", [sha256(entry.data) if entry.data is not None else "" for entry in entries]),
            1036: ("texts", [""] * count),
            # CONFIG 1 and NOREPLACE 16; DOC 2.
            1037: ("int32", [17 if e.path in conffiles else 2 * ("/doc/" in e.path and e.data is not None) for e in entries]),
            1039: ("texts", ["root"] * count),
            1040: ("texts", ["root"] * count),
            1044: ("text", f"{about['name']}-{about['version']}-1.src.rpm"),
            1045: ("int32", [0xffffffff] * count),
            1047: ("texts", [about["name"]]),
            1048: ("int32", [flags for _, flags, _ in needs]),
            1049: ("texts", [name for name, _, _ in needs]),
            1050: ("texts", [version for _, _, version in needs]),
            1064: ("text", "4.18.0"),
            1095: ("int32", [1] * count),
            1096: ("int32", list(range(1, count + 1))),
            1097: ("texts", [""] * count),
            1112: ("int32", [8]),
            1113: ("texts", [f"{about['version']}-1"]),
            1116: ("int32", [folders.index("/" + entry.path.rpartition("/")[0] + "/") for entry in entries]),
            1117: ("texts", [entry.path.rpartition("/")[2] for entry in entries]),
            1118: ("texts", folders),
            1124: ("text", "cpio"),
            1125: ("text", "xz"),
            1126: ("text", "2"),
            5011: ("int32", [8]),
            5062: ("text", "utf-8"),
            5092: ("texts", [sha256(payload)]),
            5093: ("int32", [8]),
        }
        for name, text in scripts.items():
            tags[names[name][0]] = ("text", text)
            tags[names[name][1]] = ("text", "/bin/sh")
        return tags

    def oci(self, architecture, entries):
        """An image layout of one layer, which docker, podman and skopeo read."""
        blobs = []

        def put(data, kind):
            blobs.append(Entry(f"blobs/sha256/{sha256(data)}", 0o644, data))
            return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{sha256(data)}", "size": len(data)}

        def text(value):
            return json.dumps(value, separators=(",", ":")).encode()

        layer = self.tar(entries)
        created = {"created": self.about["time"]}
        config = created | {
            "architecture": architecture,
            "os": "linux",
            "config": {
                "Entrypoint": ["/usr/bin/lineside"],
                "Cmd": ["--help"],
                "WorkingDir": "/data",
                "Labels": {
                    "org.opencontainers.image.version": self.about["version"],
                    "org.opencontainers.image.licenses": self.about["licence"],
                    "org.opencontainers.image.source": self.about["homepage"],
                },
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}"]},
            "history": [created | {"created_by": "contrib/package/build"}],
        }
        layers = [put(gzip.compress(layer, self.level, mtime=0), "layer.v1.tar+gzip")]
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}
        manifest = put(text(manifest | {"config": put(text(config), "config.v1+json"), "layers": layers}), "manifest.v1+json")
        manifest["annotations"] = {"org.opencontainers.image.ref.name": f"lineside:{self.about['version']}"}
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]}
        return self.tar(blobs + [
            Entry("index.json", 0o644, text(index)),
            Entry("oci-layout", 0o644, text({"imageLayoutVersion": "1.0.0"})),
        ])

    def wheel(self, tags, program, data, licences):
        """The binary distribution format of Python: pip puts `scripts` where programs are, `data` below its prefix."""
        about = self.about
        base = f"{about['name']}-{about['version']}"
        metadata = (
            f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\nSummary: {about['summary']}\n"
            f"Home-page: {about['homepage']}\nAuthor: {about['author']}\nLicense: {about['licence']}\n"
            "Classifier: Operating System :: POSIX :: Linux\nRequires-Python: >=3\n\n" + "\n".join(about["description"]) + "\n"
        )
        kind = "Wheel-Version: 1.0\nGenerator: contrib/package/build\nRoot-Is-Purelib: false\n"
        kind += "".join(f"Tag: py3-none-{tag}\n" for tag in tags)
        entries = [
            program._replace(path=f"{base}.data/scripts/{program.path}"),
            *(entry._replace(path=f"{base}.data/data/{entry.path}") for entry in data),
            *(entry._replace(path=f"{base}.dist-info/licenses/{entry.path}") for entry in licences),
            Entry(f"{base}.dist-info/METADATA", 0o644, metadata.encode()),
            Entry(f"{base}.dist-info/WHEEL", 0o644, kind.encode()),
        ]
        record = ""
        for entry in entries:
            digest = base64.urlsafe_b64encode(hashlib.sha256(entry.data).digest()).rstrip(b"=").decode()
            record += f"{entry.path},sha256={digest},{len(entry.data)}\n"
        name = f"{base}.dist-info/RECORD"
        entries.append(Entry(name, 0o644, f"{record}{name},,\n".encode()))
        room = io.BytesIO()
        with zipfile.ZipFile(room, "w", zipfile.ZIP_DEFLATED, compresslevel=self.level) as archive:
            for entry in entries:
                info = zipfile.ZipInfo(entry.path, self.about["tuple"])
                info.create_system, info.compress_type = 3, zipfile.ZIP_DEFLATED
                info.external_attr = unix_mode(entry) << 16
                archive.writestr(info, entry.data)
        return f"{base}-py3-none-{'.'.join(tags)}.whl", room.getvalue()


def unix_mode(entry):
    return (0o040000 if entry.data is None else 0o100000) | entry.mode


def rpm_header(region, tags):
    """A header structure: an index of tags by number over a store of values, all of it one region."""
    index, store = [], b""
    for tag, (kind, value) in sorted(tags.items()):
        if kind == "int32":
            number, align, count, data = 4, 4, len(value), struct.pack(f">{len(value)}I", *value)
        elif kind == "int16":
            number, align, count, data = 3, 2, len(value), struct.pack(f">{len(value)}H", *value)
        elif kind == "bytes":
            number, align, count, data = 7, 1, len(value), value
        else:
            texts = value if kind == "texts" else [value]
            number = {"text": 6, "texts": 8, "i18n": 9}[kind]
            align, count, data = 1, len(texts), b"".join(text.encode() + b"\0" for text in texts)
        store += b"\0" * (-len(store) % align)
        index.append(struct.pack(">4I", tag, number, len(store), count))
        store += data
    count = len(index) + 1
    index.insert(0, struct.pack(">4I", region, 7, len(store), 16))
    store += struct.pack(">IIiI", region, 7, -16 * count, 16)
    return b"\x8e\xad\xe8\x01\0\0\0\0" + struct.pack(">II", count, len(store)) + b"".join(index) + store

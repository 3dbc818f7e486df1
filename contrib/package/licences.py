"""The licences of what is linked into the program, as one text that goes into every package."""
import gzip
import hashlib
import json
import pathlib
import re
import subprocess

# What rustc and cc link in that is no crate of ours.
BESIDE = """\
The Rust standard library: MIT OR Apache-2.0. Copyright The Rust Project Developers.
  https://github.com/rust-lang/rust
The GNU C Library, linked statically: LGPL-2.1-or-later. Copyright the Free Software Foundation.
  https://www.gnu.org/software/libc/; lineside's own sources build against another version of it.
libgcc: GPL-3.0-or-later WITH GCC-exception-3.1. Copyright the Free Software Foundation.
"""


def gzip_of(data):
    return gzip.compress(data, 9, mtime=0)


def graph(root, architecture):
    """The packages that are linked, by id, and what each depends on: no build scripts, procedural macros or tests."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", f"{architecture}-unknown-linux-gnu"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    metadata = json.loads(done.stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    macros = {key for key, package in packages.items() if any("proc-macro" in target["kind"] for target in package["targets"])}
    edges, todo = {}, [key for key, package in packages.items() if package["name"] == "lineside-cli"]
    while todo:
        key = todo.pop()
        if key in edges:
            continue
        normal = [dep["pkg"] for dep in nodes[key]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        edges[key] = [each for each in normal if each not in macros]
        todo.extend(edges[key])
    return {key: packages[key] for key in edges}, edges


def foreign(packages):
    """Those of others: our own have the workspace's licences."""
    return sorted((package for package in packages.values() if package["source"]), key=lambda package: (package["name"], package["version"]))


def texts(package):
    """The licence files of a package; of zstd's C sources BSD's, which is the one of its two that is taken."""
    folder = pathlib.Path(package["manifest_path"]).parent
    is_licence = re.compile("licen[cs]e|copying|notice|copyright", re.I)
    files = [path for path in sorted(folder.iterdir()) if is_licence.match(path.name) and path.is_file()]
    files.extend(path for path in [folder / "zstd/LICENSE"] if path.is_file())
    return [path.read_text(errors="replace").replace("\r\n", "\n").strip() for path in files]


def of_what_is_linked(packages):
    """A list of the packages, then each text once, under a number that the list names."""
    lines, numbers, bodies = [], {}, []
    for package in foreign(packages):
        named = []
        for text in texts(package):
            key = hashlib.sha256(" ".join(text.split()).encode()).digest()
            if key not in numbers:
                numbers[key] = len(numbers) + 1
                bodies.append(text)
            if numbers[key] not in named:
                named.append(numbers[key])
        if not named:
            raise OSError(f"{package['name']} {package['version']} has no licence text")
        where = package["repository"] or f"https://crates.io/crates/{package['name']}"
        lines.append(f"{package['name']} {package['version']}: {package['license']}; texts {', '.join(map(str, named))}\n  {where}\n")
    text = "Lineside itself is under MIT OR Apache-2.0. Linked into it are, with the numbers of the texts below:\n\n"
    text += "".join(lines) + "\nBeside them:\n\n" + BESIDE
    for number, body in enumerate(bodies, 1):
        text += f"\n{'=' * 100}\nText {number}\n{'=' * 100}\n\n{body}\n"
    return text.encode()

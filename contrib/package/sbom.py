"""The parts of the program as a CycloneDX 1.6 document (ECMA-424): what is linked in, its licences and where it comes from."""
import json
import re
import uuid

import licences


def checksums(root):
    """By name and version: what Cargo.lock holds a crate's archive to."""
    text = (root / "Cargo.lock").read_text()
    found = re.findall(r'^name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"$', text, re.M)
    return {(name, version): checksum for name, version, checksum in found}


def component(package, sums):
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    found = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "scope": "required",
        "hashes": [{"alg": "SHA-256", "content": sums[name, version]}],
        # An old way to write OR, which is no SPDX expression.
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
        "purl": purl,
    }
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def of_what_is_linked(root, graph, about, binary_sha256, architecture):
    """The same bytes for the same sources, binary and time."""
    packages, edges = graph
    sums = checksums(root)
    program = f"pkg:generic/{about['name']}@{about['version']}"
    refs = {key: f"pkg:cargo/{package['name']}@{package['version']}" if package["source"] else program for key, package in packages.items()}
    depends = {program: set()}
    for key, to in edges.items():
        # Our own crates are the program: what they depend on, it does.
        depends.setdefault(refs[key], set()).update(refs[each] for each in to if refs[each] != refs[key])
    parts = [component(package, sums) for package in licences.foreign(packages)]
    # What cc and rustc link in beside crates has no checksum in Cargo.lock.
    beside = [{"type": "library", "bom-ref": name, "name": name, "scope": "required", "licenses": [licence]} for name, licence in (
        ("rust-std", {"expression": "MIT OR Apache-2.0"}),
        ("glibc", {"expression": "LGPL-2.1-or-later"}),
        ("libgcc", {"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}),
    )]
    depends[program].update(part["bom-ref"] for part in beside)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{program}#{architecture}#{binary_sha256}')}",
        "version": 1,
        "metadata": {
            "timestamp": about["time"],
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": about["name"],
                "version": about["version"],
                "hashes": [{"alg": "SHA-256", "content": binary_sha256}],
                "licenses": [{"expression": about["licence"]}],
                "purl": program,
            },
        },
        "components": sorted(parts + beside, key=lambda part: part["bom-ref"]),
        "dependencies": [{"ref": ref, "dependsOn": sorted(to)} for ref, to in sorted(depends.items())],
    }
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()

"""Measures Forge on large sessions, and checks that a session whose compaction fails keeps its bytes."""

import hashlib
import os
import pathlib
import pty
import resource
import shutil
import subprocess
import sys
import time

from made import FORMATS, make

FORGE, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
SIZES = [int(size) for size in os.environ.get("SIZES", "300 2048").split()]
CHOSEN = os.environ.get("FORMATS", " ".join(FORMATS)).split()
# Formats with a record a line, which `inspect` never holds whole.
STREAMED = {"claude-code", "codex", "codex-zst", "pi", "gemini-cli", "openai", "cline"}
IN_PLACE = {"claude-code": ("claude", "60k"), "codex": ("codex", "60k"), "pi": ("pi", "60k")}
# The most megabytes beside the file.
SPARE = 200
failures = []


def environment(home):
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    return {**kept, "HOME": str(home), "XDG_DATA_HOME": str(home / ".local/share"), "NO_COLOR": "1"}


class Ran:
    """A command that was run: its time in seconds, its peak in megabytes, its exit code and its stderr."""

    def __init__(self, *arguments, home=FOLDER, preexec=None):
        out, err = FOLDER / "stdout", FOLDER / "stderr"
        started = time.monotonic()
        with out.open("wb") as stdout, err.open("wb") as stderr:
            child = subprocess.Popen([FORGE, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                     env=environment(home), cwd=home, preexec_fn=preexec)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - started
        self.peak = usage.ru_maxrss / 1000
        self.code = child.returncode
        self.err = err.read_text(errors="replace").strip()
        self.out = out


def sha256(path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def check(what, is_right, more=""):
    print(f"  {'ok  ' if is_right else 'FAIL'} {what}{': ' + more if more else ''}", flush=True)
    if not is_right:
        failures.append(what)


def row(format, megabytes, command, ran, bar):
    is_within = ran.code == 0 and (bar is None or ran.peak <= bar)
    said = f"{bar:,.0f} MB" if bar else ""
    print(f"| {format} | {megabytes:,.0f} MB | `{command}` | {ran.seconds:.1f} s | {ran.peak:,.0f} MB | {said} |"
          f"{'' if is_within else ' MISSED ' + ran.err[-300:]}", flush=True)
    if not is_within:
        failures.append(f"{command} of {format}, {megabytes:.0f} MB")


def home_of(agent, path, name):
    """Puts a session where its agent keeps it, and returns the home folder."""
    home = FOLDER / "home"
    shutil.rmtree(home, ignore_errors=True)
    place = {"claude": ".claude/projects/-project", "codex": ".codex/sessions/2026/01/01", "pi": ".pi/agent/sessions/--project--"}[agent]
    (home / place).mkdir(parents=True)
    os.link(path, home / place / name)
    return home


def measure(format, size):
    path, unpacked = make(format, size, FOLDER / "made")
    on_disk = path.stat().st_size
    before = sha256(path)
    megabytes = unpacked / 1e6
    # A document is held once; lines are read one by one.
    row(format, megabytes, "inspect", Ran("inspect", path), SPARE if format in STREAMED else megabytes + SPARE)
    result = FOLDER / "result"
    to = [] if format in ("claude-code", "openai") else ["--to", "openai"]
    whole = megabytes + SPARE
    row(format, megabytes, "compact -o", Ran("compact", path, "--max-tokens", "60k", "-o", result, *to), whole)
    result.unlink(missing_ok=True)
    if format in IN_PLACE:
        agent, limit = IN_PLACE[format]
        row(format, megabytes, "compact --in-place", Ran("compact", path, "--in-place", "--max-tokens", limit), whole)
        added = path.stat().st_size - on_disk
        check(f"{format}: --in-place appended", 0 < added < 3_000_000, f"{added:,} bytes")
        row(format, megabytes, "inspect (compacted)", Ran("inspect", path), SPARE)
        row(format, megabytes, "compact --undo", Ran("compact", path, "--undo"), whole)
        check(f"{format}: --undo restored the bytes", sha256(path) == before)
        home = home_of(agent, path, path.name)
        row(format, megabytes, "sessions", Ran("sessions", home=home), SPARE)
        other = "codex" if agent == "pi" else "pi"
        row(format, megabytes, f"continue --with {other}", Ran("continue", f"@{agent}:last", "--with", other, home=home), None)
        shutil.rmtree(home)
    check(f"{format}: the original keeps its bytes", sha256(path) == before)
    return path


def shows_progress(path):
    """Runs `inspect` at a terminal and returns whether a bar was drawn."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(FORGE, [FORGE, "inspect", str(path)])
    drawn = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        drawn += piece
    os.waitpid(pid, 0)
    return b"reading" in drawn and "█".encode() in drawn


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def faults():
    """A full disk, no permission, and a file that another process writes: the session keeps its bytes."""
    for format, (_, limit) in IN_PLACE.items():
        if format not in CHOSEN:
            continue
        path, _ = make(format, 8, FOLDER / "faults")
        before = sha256(path)
        command = ("compact", path, "--in-place", "--max-tokens", limit)

        def keeps(what, ran, names):
            left = [file.name for file in path.parent.iterdir() if file != path]
            is_right = ran.code not in (0, -9, -25) and sha256(path) == before and not left and names in ran.err.lower()
            check(f"{format}: {what}", is_right, (ran.err or f"exit {ran.code}").replace(str(FOLDER), "…") + (f", left {left}" if left else ""))

        full = FOLDER / "full"
        full.mkdir(exist_ok=True)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", str(full)], stderr=subprocess.DEVNULL)
        if mounted.returncode == 0:
            try:
                inside = full / path.name
                shutil.copy(path, inside)
                ran = Ran("compact", inside, "--in-place", "--max-tokens", limit)
                left = [file.name for file in full.iterdir() if file != inside]
                is_right = ran.code > 0 and sha256(inside) == before and not left
                check(f"{format}: the disk is full", is_right, ran.err.replace(str(FOLDER), "…") + f" left {left}")
            finally:
                subprocess.run(["umount", str(full)], check=True)
        else:
            print("  (no right to mount a small file system: the disk is not filled)")
        most = 4_000_000
        keeps("a limit of the file size", Ran(*command, preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))), "cannot write")
        path.chmod(0o444)
        if os.geteuid() == 0:
            # A folder of mktemp is for its owner alone.
            FOLDER.chmod(0o777)
            path.parent.chmod(0o777)
        nobody = as_nobody if os.geteuid() == 0 else None
        keeps("the file may not be written", Ran(*command, preexec=nobody), "permission")
        path.chmod(0o000)
        keeps("the file may not be read", Ran(*command, preexec=nobody), "permission")
        path.chmod(0o666)
        path.parent.chmod(0o555)
        keeps("the folder may not be written", Ran(*command, preexec=nobody), "permission")
        path.parent.chmod(0o755)
        with path.open("ab"):
            keeps("its agent has it open", Ran(*command), "open")
        shutil.rmtree(path.parent)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    print("| format | size | command | time | peak | bar |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    for size in SIZES:
        for format in CHOSEN:
            path = measure(format, size)
            if size == max(SIZES) and format == "codex":
                check("a progress bar is drawn at a terminal", shows_progress(path))
            shutil.rmtree(path.parent)
    faults()
    print(f"{len(failures)} failed" if failures else "all within their bars")
    sys.exit(bool(failures))


main()

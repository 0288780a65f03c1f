"""Kills runs, takes them over, and cuts them off from their store; see kill_and_fault.sh.

A scripted model has the agent run one shell command after the other, each of which appends its number to a file. Whatever happens, each
number must stand there once, or not at all where the log says that its call was interrupted; and there must be one run.
"""

import glob
import http.server
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

FORGE = sys.argv[1]
KILLS = int(os.environ.get("KILLS", "100"))
TAKE_OVERS = int(os.environ.get("TAKE_OVERS", "100"))
HOLES = int(os.environ.get("HOLES", "10"))
SEED = int(os.environ.get("SEED", str(random.randrange(1 << 30))))
DICE = random.Random(SEED)
STORES = os.environ.get("STORES", "SQLite,Postgres").split(",")
LIMIT = 600


class Model(http.server.ThreadingHTTPServer):
    """Asks for command after command; how far the work has come is in the conversation alone."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.n_calls = 1 << 30
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = b'{"data": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        n = 0
        for message in request["messages"]:
            for call in message.get("tool_calls") or []:
                n = max(n, int(call["id"].removeprefix("call_")) + 1)
        if n >= self.server.n_calls:
            delta, reason = {"content": "All is done."}, "stop"
        else:
            arguments = json.dumps({"command": f"sleep 0.0{DICE.randrange(1, 5)}; echo {n} >> effects"})
            call = {"index": 0, "id": f"call_{n}", "type": "function", "function": {"name": "shell", "arguments": arguments}}
            delta, reason = {"tool_calls": [call]}, "tool_calls"
        chunk = json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        body = f"data: {chunk}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass


class Proxy:
    """Passes on what is said to a Postgres server, until it swallows everything in both directions."""

    def __init__(self, connect):
        self.connect = connect
        self.is_open = threading.Event()
        self.is_open.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = self.connect()
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    def pump(self, one, other):
        try:
            while data := one.recv(1 << 16):
                if not self.is_open.is_set():
                    # What was said into the hole is lost, and so is the connection: nobody is told.
                    time.sleep(LIMIT)
                    return
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Postgres:
    """A server of our own, on a socket in a folder of its own."""

    def __init__(self):
        programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        self.programs = programs[-1] if programs else os.path.dirname(shutil.which("initdb") or "")
        if not os.path.exists(f"{self.programs}/initdb"):
            raise FileNotFoundError("no Postgres: install postgresql")
        self.folder = tempfile.mkdtemp(prefix="forge-pg-")
        self.user = {}
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self.user = {"user": nobody.pw_uid, "group": nobody.pw_gid}
        self.run("initdb", "-U", "test", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-c listen_addresses='' -k {self.folder} -c fsync=off"
        self.run("pg_ctl", "-w", "-l", f"{self.folder}/log", "-o", options, "start")
        self.n = 0

    def run(self, name, *arguments):
        command = [f"{self.programs}/{name}", "-D", f"{self.folder}/data", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **self.user)

    def connect(self):
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self.folder}/.s.PGSQL.5432")
        return server

    def database(self):
        self.n += 1
        subprocess.run(
            [f"{self.programs}/psql", "-h", self.folder, "-U", "test", "-q", "-c", f"CREATE DATABASE d{self.n}", "postgres"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return f"d{self.n}"

    def stop(self):
        self.run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


class Place:
    """A folder in which one run works."""

    def __init__(self, model, n_calls, store=None):
        model.n_calls = n_calls
        self.n_calls = n_calls
        self.folder = tempfile.mkdtemp(prefix="forge-kill-")
        self.store = store or f"sqlite://{self.folder}/runs.db"
        with open(f"{self.folder}/forge.yaml", "w") as file:
            file.write(
                "agents: [{ id: worker, model: openai:scripted, tools: [shell], max_iterations: 100000, max_repetitions: 100000 }]\n"
                "models: { openai:scripted: { window: 1000000 } }\n"
                "permissions: { shell: { '*': allow } }\n"
            )
        self.environment = {
            "HOME": self.folder,
            "PATH": os.environ["PATH"],
            "OPENAI_BASE_URL": model.url(),
            "OPENAI_API_KEY": "none",
            "NO_COLOR": "1",
        }

    def start(self, *arguments, store=None):
        command = [FORGE, *arguments, "--store", store or self.store]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def ask(self, *arguments):
        process = self.start("checkpoints", *arguments)
        out, _ = process.communicate(timeout=LIMIT)
        return process.returncode, out.decode()

    def n_runs(self):
        code, out = self.ask("list", "--json")
        # A run that was killed before its first checkpoint has nothing to go on from.
        return sum(run["checkpoints"] > 0 for run in json.loads(out)["runs"]) if code == 0 else 0

    def effects(self):
        try:
            with open(f"{self.folder}/effects") as file:
                return [int(line) for line in file]
        except FileNotFoundError:
            return []

    def verdict(self, allowed_runs=1, known_only=False):
        """What became of the effects, and what is wrong."""
        faults = []
        effects = self.effects()
        twice = len(effects) - len(set(effects))
        code, out = self.ask("check")
        if code != 0:
            faults.append(f"check says {code}: {out.strip()[-300:]}")
        forks = self.n_runs() - allowed_runs
        code, out = self.ask("export", "last", "--to", "openai", "-o", f"{self.folder}/session.json")
        if code != 0:
            return {"effects": len(effects), "twice": twice, "lost": 0, "forks": forks, "interrupted": 0}, faults + [out.strip()]
        with open(f"{self.folder}/session.json") as file:
            messages = json.load(file)
        messages = messages["messages"] if isinstance(messages, dict) else messages
        called, interrupted = set(), set()
        for message in messages:
            for call in message.get("tool_calls") or []:
                called.add(int(call["id"].removeprefix("call_")))
            if message["role"] == "tool" and "was interrupted" in json.dumps(message["content"]):
                interrupted.add(int(message["tool_call_id"].removeprefix("call_")))
        missing = called - interrupted - set(effects)
        unknown = set() if known_only else set(effects) - called
        lost = len(missing) + len(unknown)
        if not known_only and called != set(range(self.n_calls)):
            faults.append(f"{len(called)} of {self.n_calls} calls are in the log")
        return {"effects": len(effects), "twice": twice, "lost": lost, "forks": forks, "interrupted": len(interrupted)}, faults

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def finish(process):
    out, _ = process.communicate(timeout=LIMIT)
    return process.returncode, out.decode()


def kills(model, store):
    """SIGKILL at random moments, each time resumed, until so many kills."""
    n_calls = KILLS * 3
    place = Place(model, n_calls, store)
    n, faults = 0, []
    begun = False
    while True:
        process = place.start("run", "--resume", "last") if begun else place.start("run", "go")
        try:
            out, _ = process.communicate(timeout=DICE.uniform(0.02, 0.9) if n < KILLS else LIMIT)
            code, out = process.returncode, out.decode()
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            n += 1
            begun = begun or place.n_runs() > 0
            continue
        if code == 0:
            break
        if not begun and "nothing" in out:
            continue
        faults.append(f"exit {code}: {out.strip()[-300:]}")
        if len(faults) > 5:
            break
    figures, more = place.verdict()
    return {"what": f"{n} kills", **figures}, faults + more, place


def take_overs(model, store):
    """A living run is taken over at random moments, again and again."""
    n_calls = TAKE_OVERS * 4
    place = Place(model, n_calls, store)
    faults, codes = [], {}
    holder = place.start("run", "go")
    while not place.effects():
        time.sleep(0.02)
    taken = 0
    while taken < TAKE_OVERS:
        time.sleep(DICE.uniform(0.0, 0.25))
        if holder.poll() is not None:
            break
        taker = place.start("run", "--resume", "last", "--take-over")
        code, out = finish(holder)
        codes[code] = codes.get(code, 0) + 1
        if code not in (0, 9):
            faults.append(f"the one that lost the run exits {code}: {out.strip()[-300:]}")
        if code == 0:
            # It came to its end before it was taken over.
            holder = taker
            break
        taken += 1
        holder = taker
    code, out = finish(holder)
    if code != 0:
        faults.append(f"the last one exits {code}: {out.strip()[-300:]}")
    figures, more = place.verdict()
    return {"what": f"{taken} take-overs", **figures}, faults + more, place


def holes(model, postgres):
    """The network swallows everything for a while, or for good."""
    total = {"effects": 0, "twice": 0, "lost": 0, "forks": 0, "interrupted": 0}
    faults, codes = [], {}
    for nth in range(HOLES):
        database = postgres.database()
        proxy = Proxy(postgres.connect)
        limits = "sslmode=disable&connect_timeout=2&tcp_user_timeout=2"
        place = Place(model, 30, f"postgres://test@127.0.0.1:{proxy.port}/{database}?{limits}")
        for_good = nth % 2 == 0
        process = place.start("run", "go")
        time.sleep(DICE.uniform(0.2, 1.5))
        proxy.is_open.clear()
        try:
            if not for_good:
                time.sleep(DICE.uniform(0.5, 4))
                proxy.is_open.set()
            code, out = finish(process)
        except subprocess.TimeoutExpired:
            process.kill()
            code, out = "hung", ""
        codes[code] = codes.get(code, 0) + 1
        proxy.is_open.set()
        if code not in (0, 8):
            faults.append(f"hole {nth}: exit {code}: {out.strip()[-300:]}")
        if sorted(place.effects()) != list(range(30)):
            faults.append(f"hole {nth}: effects {place.effects()}")
        if place.n_runs() > 0:
            figures, more = place.verdict(known_only=code != 0)
            faults += more
            for key, value in figures.items():
                total[key] += value
        place.forget()
    said = ", ".join(f"{times}x exit {code}" for code, times in sorted(codes.items(), key=str))
    return {"what": f"{HOLES} holes ({said})", **total}, faults


def main():
    print(f"seed {SEED}", flush=True)
    model = Model()
    try:
        postgres = Postgres()
    except FileNotFoundError as error:
        print(f"SKIPPED on Postgres: {error}")
        postgres = None
    rows, faults = [], []
    try:
        for name in ["SQLite"] + (["Postgres"] if postgres else []):
            for work in (kills, take_overs):
                if name not in STORES:
                    continue
                store = None
                if name == "Postgres":
                    proxy = Proxy(postgres.connect)
                    store = f"postgres://test@127.0.0.1:{proxy.port}/{postgres.database()}?sslmode=disable"
                figures, more, place = work(model, store)
                rows.append({"store": name, **figures})
                faults += [f"{name}, {figures['what']}: {fault}" for fault in more]
                print(rows[-1], *more, sep="\n  ", flush=True)
                if not more:
                    place.forget()
        if postgres and HOLES:
            figures, more = holes(model, postgres)
            rows.append({"store": "Postgres", **figures})
            faults += more
    finally:
        if postgres:
            postgres.stop()
    columns = ["store", "what", "effects", "twice", "lost", "forks", "interrupted"]
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" for _ in columns) + " |")
    for row in rows:
        print("| " + " | ".join(str(row[column]) for column in columns) + " |")
    for fault in faults:
        print(f"FAULT: {fault}")
    wrong = faults or any(row[column] for row in rows for column in ("twice", "lost", "forks"))
    sys.exit(1 if wrong else 0)


main()

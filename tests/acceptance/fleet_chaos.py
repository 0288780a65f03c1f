"""A fleet under attack: workers that are killed and frozen, Postgres restarted, the network cut.

  fleet_chaos.py FORGE TEMPORAL [--runs 100] [--turns 50] [--workers 3] [--slots 4] [--every 2] [--heartbeat 2] [--calm] [--files]

FORGE is a binary with the feature `temporal`, TEMPORAL that of its server. Each turn of a run calls a tool that appends a line
to a file. Every so many seconds a worker is killed or frozen and replaced; Postgres is restarted twice; once, everything that
the workers say to Postgres and Temporal disappears for ten seconds. It prints a table, and exits with 1 if a run was lost or a
tool call was executed twice. With --files each run has a workspace that travels, and each turn appends to a file in it, too: every line
there must be once, in order. With --calm nothing is attacked: that is the throughput. With --waiting each run asks a question that
nobody answers: what does it cost that they wait?
"""
import argparse, collections, concurrent.futures, http.server, json, os, pathlib, random, re, select, shutil, signal, socket, socketserver
import subprocess, sys, tempfile, threading, time

EFFECTS = "effects.log"
# A workspace that travels is in the worker's folder: workspaces/runs/RUN/0/project.
EFFECTS_FROM_WORKSPACE = "../../../../../effects.log"


class Model(http.server.BaseHTTPRequestHandler):
    """A model that answers at once: the next turn is the number after the newest one that it finds in the messages."""
    protocol_version = "HTTP/1.1"
    turns = 50
    asks = False
    files = False

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        task = next(m["content"] for m in body["messages"] if m["role"] == "user")
        task = task if isinstance(task, str) else json.dumps(task)
        run = re.search(r"run (\d+)", task).group(1)
        done = [int(n) for m in body["messages"] for c in m.get("tool_calls") or []
                for n in re.findall(r"turn (\d+)", c["function"]["arguments"])]
        turn = max(done, default=0) + 1
        if self.asks:
            call = {"index": 0, "id": "c1", "type": "function",
                    "function": {"name": "ask", "arguments": json.dumps({"question": "Go on?"})}}
            delta, finish = {"tool_calls": [call]}, "tool_calls"
        elif turn > self.turns:
            delta, finish = {"content": f"run {run} is done"}, "stop"
        else:
            effects = EFFECTS_FROM_WORKSPACE if self.files else EFFECTS
            command = f"echo run {run} turn {turn} $(date +%s.%N) >> {effects}"
            if self.files:
                command += f"; echo {turn} >> turns.txt"
            call = {"index": 0, "id": f"c{turn}", "type": "function",
                    "function": {"name": "shell", "arguments": json.dumps({"command": command})}}
            delta, finish = {"tool_calls": [call]}, "tool_calls"
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        chunks = [{"choices": [{"index": 0, "delta": delta}]},
                  {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage}]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


class Proxy(threading.Thread):
    """Passes connections on to a server, unless the network is cut: then nothing passes and nothing breaks."""

    def __init__(self, target):
        super().__init__(daemon=True)
        self.target, self.is_cut = target, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        other = {client: server, server: client}
        for end in other:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                for ready in select.select([client, server], [], [], 1)[0]:
                    data = ready.recv(65536)
                    while self.is_cut:
                        time.sleep(0.05)
                    if not data:
                        return
                    other[ready].sendall(data)
        except OSError:
            pass
        finally:
            client.close()
            server.close()


class Postgres:
    """A server of our own, on a port of this machine."""

    def __init__(self, folder, port):
        self.data, self.port, self.log = folder / "pg", port, folder / "pg.log"
        installed = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        self.bin = installed[-1] if installed else pathlib.Path(shutil.which("pg_ctl")).parent
        self.is_root = os.getuid() == 0
        if self.is_root:
            shutil.chown(folder, "nobody")
            self.log.touch()
            shutil.chown(self.log, "nobody")
        self.call("initdb", "-U", "test", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        self.start()

    def call(self, name, *arguments):
        command = [str(self.bin / name), "-D", str(self.data), *arguments]
        who = {"user": "nobody", "group": "nogroup", "extra_groups": []} if self.is_root else {}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **who)

    def start(self):
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories='' -c max_connections=400"
        self.call("pg_ctl", "-w", "-l", str(self.log), "-o", options, "start")

    def restart(self):
        self.call("pg_ctl", "-m", "immediate", "-w", "stop")
        self.start()


class Worker:
    """A worker, in a folder of its own, by whose file its effects are known."""
    last = 0

    def __init__(self, fleet):
        Worker.last += 1
        self.folder = fleet.folder / f"w{Worker.last}"
        self.folder.mkdir()
        command = [fleet.forge, "--trust", "worker", "--slots", str(fleet.slots), "--sandbox", "off",
                   "--config", str(fleet.folder / "forge.yaml")]
        if Model.files:
            command += ["--workspaces", str(self.folder / "workspaces")]
        if fleet.slice_calls:
            command += ["--slice-calls", str(fleet.slice_calls)]
        self.process = subprocess.Popen(command, cwd=self.folder, env=fleet.environment, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=open(fleet.folder / f"w{Worker.last}.log", "w"))

    def freeze(self):
        """Freezes the worker and everything that it has started, as a machine that stands still."""
        for pid in self.family():
            send(pid, signal.SIGSTOP)

    def thaw(self):
        for pid in self.family():
            send(pid, signal.SIGCONT)

    def family(self):
        parents = collections.defaultdict(list)
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
                parents[int(fields[1])].append(int(stat.parent.name))
            except (OSError, IndexError):
                pass
        family = [self.process.pid]
        for pid in family:
            family += parents[pid]
        return family


def send(pid, which):
    try:
        os.kill(pid, which)
    except ProcessLookupError:
        pass


def effects(folder):
    """The lines of all workers: worker, run, turn, time."""
    found = []
    for file in folder.glob(f"w*/{EFFECTS}"):
        for run, turn, at in re.findall(r"run (\d+) turn (\d+) ([\d.]+)", file.read_text()):
            found.append((file.parent.name, int(run), int(turn), float(at)))
    return sorted(found, key=lambda effect: effect[3])


def take_overs(found, faults):
    """For each run that worked on a worker just before that was lost: the time until its next effect elsewhere."""
    by_run = collections.defaultdict(list)
    for effect in found:
        by_run[effect[1]].append(effect)
    times = []
    for kind, worker, at in faults:
        for its in by_run.values():
            before = [effect for effect in its if effect[3] <= at]
            if kind == "kill" and before and before[-1][0] == worker and at - before[-1][3] < 0.5:
                after = next((effect for effect in its if effect[3] > at), None)
                if after and after[0] != worker:
                    times.append(after[3] - at)
    return sorted(times)


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout.strip()


def turns_in_files(fleet, show):
    """The turns that left a line in the workspace of the run."""
    tree = show["workspace"]["git"]
    return [int(line) for line in git("-C", str(fleet.repository), "show", f"{tree['pin']}:turns.txt").split()]


class Fleet:
    def __init__(self, options, folder):
        self.folder, self.slots, self.slice_calls = folder, options.slots, options.slice_calls
        self.forge = os.path.abspath(options.forge)
        model = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Model)
        model.daemon_threads = True
        threading.Thread(target=model.serve_forever, daemon=True).start()
        (folder / "forge.yaml").write_text(
            f"providers: {{ m: {{ kind: openai, base_url: 'http://127.0.0.1:{model.server_address[1]}/v1' }} }}\n"
            "models: { 'm:m': { window: 200000, max_output: 1000 } }\n"
            "agents: [{ id: one, model: 'm:m', tools: [shell, ask] }]\npermissions: { shell: allow }\n")
        if options.files:
            self.repository = folder / "project.git"
            git("init", "--quiet", "--bare", "--initial-branch=main", str(self.repository))
            first = git("-C", str(self.repository), "-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-m", "begin",
                        git("-C", str(self.repository), "mktree"))
            git("-C", str(self.repository), "update-ref", "refs/heads/main", first)
        free = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        postgres_port, temporal_port = (listener.getsockname()[1] for listener in free)
        for listener in free:
            listener.close()
        self.postgres = Postgres(folder, postgres_port)
        # The server's timers fire up to a second late unless they are told not to: then a take-over is as much later.
        self.temporal = subprocess.Popen(
            [options.temporal, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(temporal_port),
             "--db-filename", str(folder / "temporal.db"), "--log-level", "never",
             "--dynamic-config-value", 'history.timerProcessorMaxTimeShift="20ms"'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(4)
        self.proxies = [Proxy(postgres_port), Proxy(temporal_port)]
        direct = self.addresses(postgres_port, temporal_port)
        self.direct = {**os.environ, **direct, "HOME": str(folder), "OPENAI_API_KEY": "none"}
        self.environment = {**self.direct, **self.addresses(*(proxy.port for proxy in self.proxies))}

    @staticmethod
    def addresses(postgres, temporal):
        return {"FORGE_STORE": f"postgres://test@127.0.0.1:{postgres}/postgres?sslmode=disable",
                "FORGE_FLEET": f"temporal://127.0.0.1:{temporal}/default"}

    def call(self, *arguments):
        done = subprocess.run([self.forge, "--trust", *arguments], env=self.direct, cwd=self.folder, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"forge {' '.join(arguments)}: {done.stderr}")
        return json.loads(done.stdout)

    def is_over(self):
        return not any(run["state"] in ("running", "waiting") for run in self.call("fleet", "list", "--json")["runs"])


def attack(fleet, workers, options, faults):
    """Kills or freezes a worker every so many seconds, and replaces the dead."""
    began, frozen, extra = time.time(), [], iter([("postgres", 15), ("network", 40), ("postgres", 70)])
    next_extra = next(extra)
    while not fleet.is_over():
        time.sleep(options.every)
        victim = random.choice([worker for worker in workers if worker not in frozen] or workers)
        if random.random() < 0.6 or len(frozen) + 1 == len(workers):
            victim.process.kill()
            victim.process.wait()
            faults.append(("kill", victim.folder.name, time.time()))
            frozen = [worker for worker in frozen if worker is not victim]
            workers[workers.index(victim)] = Worker(fleet)
        else:
            victim.freeze()
            faults.append(("freeze", victim.folder.name, time.time()))
            frozen.append(victim)
        if len(frozen) > 1 or (frozen and random.random() < 0.5):
            frozen.pop(0).thaw()
        if next_extra and time.time() - began > next_extra[1]:
            kind, next_extra = next_extra[0], next(extra, None)
            faults.append((kind, "", time.time()))
            if kind == "postgres":
                fleet.postgres.restart()
            else:
                for proxy in fleet.proxies:
                    proxy.is_cut = True
                time.sleep(10)
                for proxy in fleet.proxies:
                    proxy.is_cut = False
        if time.time() - began > options.limit:
            break
    for worker in frozen:
        worker.thaw()


def memory(pid):
    """Megabytes of the process."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return round(int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024)


def seconds(pid):
    """Processor time of the process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_together(fleet, workers, options):
    """Lets all runs wait, and prints what that costs."""
    Model.asks = True
    workers.append(Worker(fleet))
    time.sleep(3)
    pids = {"server": fleet.temporal.pid, "worker": workers[0].process.pid}
    before = {name: memory(pid) for name, pid in pids.items()}
    submit = lambda n: fleet.call("submit", f"This is run {n}.", "--json")["run"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(submit, range(options.waiting)))
    while any(fleet.call("fleet", "show", run, "--json")["state"] != "waiting" for run in ids[-20:]):
        time.sleep(2)
    time.sleep(15)
    began = {name: seconds(pid) for name, pid in pids.items()}
    time.sleep(30)
    print(f"| runs that wait | {options.waiting} |")
    for name, pid in pids.items():
        print(f"| {name}: memory before and while they wait, MB | {before[name]}, {memory(pid)} |")
        print(f"| {name}: share of a core | {(seconds(pid) - began[name]) / 30:.2%} |")
    print(f"| processes of slices | {len(workers[0].family()) - 1} |")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("forge")
    parser.add_argument("temporal")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--slice-calls", type=int, default=20)
    parser.add_argument("--every", type=float, default=2)
    parser.add_argument("--heartbeat", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1800, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calm", action="store_true")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--waiting", type=int, metavar="RUNS")
    options = parser.parse_args()
    random.seed(options.seed)
    Model.turns, Model.files = options.turns, options.files
    folder = pathlib.Path(tempfile.mkdtemp(prefix="forge-chaos-"))
    folder.chmod(0o755)
    fleet, workers, faults = Fleet(options, folder), [], []
    try:
        if options.waiting:
            return wait_together(fleet, workers, options)
        ids = {}
        for n in range(1, options.runs + 1):
            workspace = ["--workspace", str(fleet.repository)] if options.files else []
            ids[n] = fleet.call("submit", f"This is run {n}.", "--heartbeat", str(options.heartbeat), *workspace, "--json")["run"]
        began = time.time()
        workers = [Worker(fleet) for _ in range(options.workers)]
        if options.calm:
            while not fleet.is_over():
                time.sleep(1)
        else:
            attack(fleet, workers, options, faults)
            while not fleet.is_over() and time.time() - began < options.limit:
                time.sleep(1)
        took = time.time() - began
        shown = {n: fleet.call("fleet", "show", run, "--json") for n, run in ids.items()}
        found = effects(folder)
        counts = collections.Counter((run, turn) for _, run, turn, _ in found)
        lost = [n for n, show in shown.items() if show["state"] != "done" or show["said"] != f"run {n} is done"]
        twice = [key for key, count in counts.items() if count > 1]
        history = max((show["details"]["history_bytes"] for show in shown.values()), default=0) / (options.turns + 1)
        times = take_overs(found, faults)
        table = {
            "runs": options.runs, "turns of each": options.turns, "workers": options.workers, "slots": options.slots,
            "seconds": round(took), "turns a second": round(options.runs * options.turns / took, 1),
            **{f"faults: {kind}": n for kind, n in sorted(collections.Counter(kind for kind, *_ in faults).items())},
            "runs lost": len(lost), "tool calls executed": len(found), "executed twice": len(twice),
            "begun, then worker lost": options.runs * options.turns - len(counts),
            "history, bytes a turn (worst run)": round(history),
        }
        wrong = []
        if options.files:
            kept = {n: turns_in_files(fleet, show) for n, show in shown.items() if n not in lost}
            wrong = [n for n, turns in kept.items() if turns != sorted(set(turns)) or any((n, turn) not in counts for turn in turns)]
            table["runs whose files are not those of their calls"] = len(wrong)
            table["calls executed and undone, as their worker was lost"] = sum(n in kept and turn not in kept[n] for n, turn in counts)
        if times:
            table["take-over after a kill, s (median, 90 %, worst)"] = ", ".join(
                f"{times[min(len(times) - 1, int(len(times) * share))]:.1f}" for share in (0.5, 0.9, 1))
        for name, value in table.items():
            print(f"| {name} | {value} |")
        for n in lost[:5]:
            print(f"lost: run {n} ({ids[n]}): {json.dumps(shown[n])[:500]}")
        for run, turn in twice[:5]:
            print(f"twice: run {run} ({ids[run]}), turn {turn}: {[e for e in found if e[1:3] == (run, turn)]}")
        for n in wrong[:5]:
            print(f"files: run {n} ({ids[n]}): {kept[n]}")
        return 1 if lost or twice or wrong else 0
    finally:
        for worker in workers:
            worker.thaw()
            worker.process.kill()
        fleet.temporal.kill()
        fleet.postgres.call("pg_ctl", "-m", "immediate", "stop")
        if os.environ.get("KEEP"):
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

"""Draws docs/replay.svg, the picture of the README, from two replays of the recording that ships.

    python3 tests/acceptance/replay_picture.py [target/release/forge]
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDING = "tests/fixtures/reading.json"
WINDOW = 8000
WIDTH, HEIGHT = 760, 330
LEFT, RIGHT, TOP, BOTTOM = 66.0, 728.0, 58.0, 276.0
FULL, FITTED, LIMIT, WORDS = "#8c959f", "#1a7f37", "#cf222e", "#57606a"
FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"


def replay(forge, window):
    """Returns the report of a replay in a window of so many tokens."""
    command = [forge, "replay", RECORDING, "--window", str(window), "--json"]
    report = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    return report[0] if isinstance(report, list) else report


def picture(full, fitted):
    """Draws the prompts of both replays over each other."""
    prompts, compacted = full["prompt_tokens"], fitted["prompt_tokens"]
    calls, most = len(prompts), 45_000
    x = lambda call: LEFT + (RIGHT - LEFT) * (call - 1) / (calls - 1)
    y = lambda tokens: BOTTOM - (BOTTOM - TOP) * tokens / most
    line = lambda tokens: " ".join(f"{x(n + 1):.1f},{y(t):.1f}" for n, t in enumerate(tokens))
    back = " ".join(reversed(line(compacted).split()))
    starts = [compaction["call"] for compaction in fitted["compactions"]]
    sent, all_sent = sum(compacted), sum(prompts)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONT}"'
        ' font-size="12" role="img" aria-labelledby="title desc">',
        '<title id="title">Prompt size of each model call, with and without compaction</title>',
        f'<desc id="desc">forge replay {RECORDING} --window 8k: {calls} calls, {len(starts)} compactions. With'
        f" compaction no prompt is over {max(compacted):,} tokens; without it the last one has {prompts[-1]:,}.</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#ffffff" stroke="#d0d7de"/>',
        '<text x="20" y="26" font-size="15" font-weight="600" fill="#1f2328">Prompt tokens per model call, in a'
        f" window of {WINDOW:,}</text>",
        f'<text x="20" y="44" fill="{WORDS}">$ forge replay {RECORDING} --window 8k</text>',
    ]
    for tokens in range(0, most, 10_000):
        out.append(
            f'<line x1="{LEFT:.0f}" x2="{RIGHT:.0f}" y1="{y(tokens):.1f}" y2="{y(tokens):.1f}" stroke="#eaeef2"/>'
            f'<text x="58" y="{y(tokens) + 4:.1f}" text-anchor="end" fill="{WORDS}">{tokens:,}</text>'
        )
    out += [
        f'<polygon points="{line(prompts)} {back}" fill="{FULL}" fill-opacity="0.12"/>',
        f'<polyline points="{line(prompts)}" fill="none" stroke="{FULL}" stroke-width="2"/>',
        f'<line x1="{LEFT:.0f}" x2="{RIGHT:.0f}" y1="{y(WINDOW):.1f}" y2="{y(WINDOW):.1f}" stroke="{LIMIT}"'
        ' stroke-dasharray="5 4"/>',
        f'<text x="72" y="{y(WINDOW) - 6:.1f}" fill="{LIMIT}">window: {WINDOW:,}</text>',
        f'<polyline points="{line(compacted)}" fill="none" stroke="{FITTED}" stroke-width="2"/>',
    ]
    dot = lambda at_x, at_y: f'<circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="3.2" fill="{FITTED}"/>'
    out += [dot(x(call), y(compacted[call - 1])) for call in starts]
    middle = prompts[calls * 2 // 3 - 1]
    out += [
        f'<text x="{x(calls * 2 // 3) - 10:.1f}" y="{y(middle) - 4:.1f}" text-anchor="end" fill="{WORDS}">without'
        f" compaction: {all_sent:,} tokens sent</text>",
        f'<text x="{RIGHT}" y="{y(WINDOW) - 15:.1f}" text-anchor="end" font-weight="600" fill="{FITTED}">with Forge:'
        f" {sent:,} tokens sent</text>",
    ]
    for call in range(1, calls + 1, 8):
        out.append(f'<text x="{x(call):.1f}" y="294" text-anchor="middle" fill="{WORDS}">call {call}</text>')
    out.append(
        f'{dot(70, 313)}<text x="80" y="317" fill="{WORDS}">a compaction, before the call ({len(starts)} in {calls}'
        " calls; no model was asked)</text>"
    )
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    forge = str(Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/forge").resolve())
    (ROOT / "docs/replay.svg").write_text(picture(replay(forge, 1_000_000), replay(forge, WINDOW)))

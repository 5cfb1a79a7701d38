// The page: frames from the program drawn as they come, at the screen's rate, with the panel beside; or, when the program asks for
// it, one after the other into a video.

import * as keys from './keys';
import { Link } from './link';
import { Panel } from './panel';
import type { Frame, Hello, Plan } from './protocol';
import type { Recording } from './record';
import { type Follow, Scene } from './scene';

const canvas = document.getElementById('view') as HTMLCanvasElement;
const notice = document.getElementById('notice')!;
const narrow = matchMedia('(max-width: 760px)');
const token = new URLSearchParams(location.search).get('record') ?? '';

let hello: Hello | null = null;
let scene: Scene | null = null;
let panel: Panel | null = null;
let newest: Frame | null = null;
let arrived = 0; // ms, of the newest frame
let gap = 20; // ms between frames, as they come
let rate = 0; // simulated over real time
let rateFrom: { time: number; at: number } | null = null;
let recording: Recording | null = null;
let noticeUntil = 0;

const link = new Link({
  hello(h) {
    begin(h).catch(e => fail(e));
  },
  frame(f) {
    if (scene === null) {
      return;
    }
    take(f);
    if (hello!.record) {
      picture(hello!.record, f).catch(e => fail(e));
    }
  },
  refused(why) {
    tell(why, 4000);
  },
  finish() {
    finish().catch(e => fail(e));
  },
  state(connected, why) {
    if (connected) {
      notice.hidden = true;
    } else {
      tell(why, Infinity);
    }
  },
}, token);

/** Tells a person something for some ms. */
function tell(text: string, ms: number): void {
  notice.textContent = text;
  notice.hidden = false;
  noticeUntil = performance.now() + ms;
}

/** Ends a rendering that cannot go on; a person is told. */
function fail(e: unknown): void {
  const text = e instanceof Error ? e.message : String(e);
  tell(text, Infinity);
  link.send({ do: 'failed', error: text });
}

async function begin(h: Hello): Promise<void> {
  const same = hello !== null && JSON.stringify(h) === JSON.stringify(hello);
  newest = null;
  if (scene !== null && !same) { // the program began again with something else
    location.reload();
    return;
  }
  if (scene === null) {
    scene = new Scene(canvas, h);
    panel = new Panel(h, { send: r => link.send(r), select, follow });
    hello = h;
    select(Math.min(h.rows - 1, h.rows > 4 ? Math.floor(Math.sqrt(h.rows)) + 1 : 0)); // one in the middle
    follow(scene.follow);
    fit();
    addEventListener('resize', fit);
    narrow.addEventListener('change', fit);
    if (h.record === null) {
      requestAnimationFrame(draw);
    }
  }
  if (h.record) {
    let codec = 'none';
    if (h.record.video) {
      const { Recording } = await import('./record');
      recording = await Recording.begin(h, h.record, canvas, (place, data) => link.sendPiece(place, data));
      codec = recording.codec;
    }
    link.send({ do: 'ready', codec });
  }
}

function fit(): void {
  const plan = hello?.record;
  if (plan && !done) {
    scene!.fit(plan.width, plan.height, 0, 1);
    return;
  }
  const side = narrow.matches ? 0 : document.querySelector('aside')!.getBoundingClientRect().width;
  scene?.fit(canvas.clientWidth, canvas.clientHeight, side, Math.min(devicePixelRatio, 2));
}

function select(row: number): void {
  scene!.select(row);
  panel!.select(row);
}

function follow(f: Follow): void {
  scene!.lookAt(f);
  panel!.follow(f);
}

function take(f: Frame): void {
  const now = performance.now(), before = newest;
  if (before && before.rows.length !== f.rows.length) {
    return; // of a program that went away
  }
  if (before === null || f.step !== before.step) {
    scene!.take(f);
    if (before) {
      gap = Math.min(Math.max(gap + 0.2 * (now - arrived - gap), 5), 250);
    }
    arrived = now;
  }
  panel!.take(f, before);
  newest = f;
}

let turn = 0, written = 0; // ms

function draw(now: number): void {
  requestAnimationFrame(draw);
  if (!notice.hidden && now > noticeUntil) {
    notice.hidden = true;
  }
  if (newest === null) {
    return;
  }
  const dt = Math.min((now - turn) / 1000, 0.1);
  turn = now;
  if (scene!.stirs()) {
    scene!.draw(newest.paused ? 1 : Math.min((now - arrived) / gap, 1), dt);
  }
  if (now - written > 100) {
    written = now;
    if (rateFrom && now - rateFrom.at > 1000) {
      rate = 1000 * (newest.time - rateFrom.time) / (now - rateFrom.at);
      rateFrom = null;
    }
    rateFrom ??= { time: newest.time, at: now };
    panel!.show(newest, rate);
  }
}

/** Renders one frame of a video, or, of a run that is only looked at in the end, the last one. */
async function picture(plan: Plan, f: Frame): Promise<void> {
  if (plan.video || f.last) {
    scene!.draw(1, plan.every * hello!.period);
  }
  if (recording && (f.step - 1) % plan.every === 0) {
    await recording.add(f);
  }
  link.send({ do: 'drawn', step: f.step });
}

let done = false;

async function finish(): Promise<void> {
  await recording?.finish();
  done = true;
  fit();
  if (newest) { // as a person would see it, for a screenshot
    scene!.draw(1, 0);
    panel!.show(newest, 0);
  }
  requestAnimationFrame(() => requestAnimationFrame(() => link.send({ do: 'saved' })));
}

// A click chooses a robot, a drag turns the camera.
let press: { x: number; y: number } | null = null;
canvas.addEventListener('pointerdown', e => press = { x: e.clientX, y: e.clientY });
canvas.addEventListener('pointerup', e => {
  if (scene && press && Math.hypot(e.clientX - press.x, e.clientY - press.y) < 5) {
    const box = canvas.getBoundingClientRect();
    const row = scene.pick(2 * (e.clientX - box.left) / box.width - 1, 1 - 2 * (e.clientY - box.top) / box.height);
    if (row >= 0) {
      select(row);
    }
  }
  press = null;
});

const FOLLOWS: Follow[] = ['all', 'row', 'none'];
keys.listen(() => panel, {
  step: () => link.send({ do: 'step' }),
  next: by => select((scene!.selected + by + hello!.rows) % hello!.rows),
  camera: () => follow(FOLLOWS[(FOLLOWS.indexOf(scene!.follow) + 1) % FOLLOWS.length]),
});

// What tests look at.
declare global {
  interface Window { claw: () => { frame: Frame | null; footAt: number[]; selected: number; screen: [number, number][] } }
}
window.claw = () => ({
  frame: newest, footAt: [...scene?.herd.footAt ?? []], selected: scene?.selected ?? -1,
  screen: newest?.rows.map((_, row) => scene!.screen(row)) ?? [], // where a click finds a row
});

// The panel beside the view: rows, what the chosen one does, and what can be asked of it.

import { ALL, type Frame, type Hello, type Range, type Request, type Row } from './protocol';
import type { Follow } from './scene';

const AXES = [
  { name: 'forward', unit: 'm/s', keys: 'WS', at: 'vx' },
  { name: 'left', unit: 'm/s', keys: 'AD', at: 'vy' },
  { name: 'turn left', unit: 'rad/s', keys: 'QE', at: 'wz' },
] as const;

export const KICK = 0.5; // m/s
const PUSHES: [string, string, [number, number]][] = [
  ['←', 'push to its left', [0, KICK]], ['↑', 'push forward', [KICK, 0]], ['↓', 'push back', [-KICK, 0]], ['→', 'push to its right', [0, -KICK]],
];
// Metrics that the panel shows elsewhere.
const SHOWN = new Set(['vx', 'vy', 'wz', 'height', 'physics_bad', 'power_w']);

function get<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

function make<K extends keyof HTMLElementTagNameMap>(parent: HTMLElement, tag: K, text = '', name = ''): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  e.textContent = text;
  e.className = name;
  parent.append(e);
  return e;
}

const fixed = (v: number, digits = 2) => (Number.isFinite(v) ? v : NaN).toFixed(digits).replace(/^-(0\.?0*)$/, '$1');

interface Term { at: number; scale: number; value: HTMLElement; bar: HTMLElement | null; smooth: number }

export interface Actions {
  send(r: Request): void;
  select(row: number): void;
  follow(f: Follow): void;
}

export class Panel {
  private readonly chips: HTMLButtonElement[] = [];
  private readonly fallen: number[] = []; // ms when a row's chip stops to be red
  private readonly facts: Record<string, HTMLElement> = {};
  private readonly axes: { slider: HTMLInputElement; mark: HTMLElement; command: HTMLOutputElement; is: HTMLOutputElement; range: Range }[] = [];
  private readonly terms: Term[] = [];
  private readonly smooth = [0, 0, 0]; // measured
  private selected = 0;
  private paused = false;
  private widest = 0.1; // of the bars
  private rewards = false;
  private sum = 0;
  private held = 0; // ms until which sliders do not follow the frames

  constructor(private readonly hello: Hello, private readonly act: Actions) {
    document.title = `${hello.policy}: clawsim play`;
    get('policy').textContent = hello.policy;
    get('about').textContent = `physics ${hello.physics}` + (hello.world ? `, world ${hello.world}` : '') + (hello.fault ? `, fault ${hello.fault}` : '') +
      (hello.all_rows > hello.rows ? `, ${hello.rows} of ${hello.all_rows} rows` : `, ${hello.rows} ${hello.rows > 1 ? 'rows' : 'row'}`);
    this.buildTime();
    this.buildRows();
    this.buildDrive();
    this.buildTerms();
  }

  private buildTime(): void {
    get('pause').onclick = () => this.toggle();
    get('step').onclick = () => this.act.send({ do: 'step' });
    for (const b of get('speed').querySelectorAll('button')) {
      b.onclick = () => this.act.send({ do: 'speed', speed: Number(b.dataset.speed) });
    }
    for (const b of get('follow').querySelectorAll('button')) {
      b.onclick = () => this.act.follow(b.dataset.follow as Follow);
    }
  }

  private buildRows(): void {
    const rows = get('rows');
    rows.replaceChildren();
    rows.hidden = this.hello.rows === 1;
    for (let i = 0; i < this.hello.rows; i++) {
      const b = make(rows, 'button', String(i));
      b.title = `row ${i}`;
      b.onclick = () => this.act.select(i);
      this.chips.push(b);
      this.fallen.push(0);
    }
    const facts = get('facts');
    facts.replaceChildren();
    for (const name of ['height', 'power', 'falls', 'episode', 'command']) {
      make(facts, 'dt', name);
      this.facts[name] = make(facts, 'dd');
    }
  }

  private buildDrive(): void {
    const sliders = get('sliders');
    sliders.replaceChildren();
    const names = make(sliders, 'div', '', 'axis names');
    ['', '', 'command', 'measured'].forEach(t => make(names, 'span', t));
    for (const a of AXES) {
      const line = make(sliders, 'div', '', 'axis');
      const label = make(line, 'label', a.name);
      const track = make(line, 'div', '', 'track');
      const slider = make(track, 'input');
      const mark = make(track, 'i');
      let range = this.hello.command[a.at];
      if (range[0] >= range[1]) { // a policy without a command still has a slider
        range = [-1, 1];
      }
      slider.type = 'range';
      slider.id = `slide-${a.at}`;
      label.htmlFor = slider.id;
      slider.min = String(range[0]);
      slider.max = String(range[1]);
      slider.step = '0.01';
      slider.title = `${a.unit}, keys ${a.keys}`;
      slider.oninput = () => this.drive(this.axes.map(x => Number(x.slider.value)) as [number, number, number]);
      slider.ondblclick = () => {
        slider.value = '0';
        slider.dispatchEvent(new Event('input'));
      };
      this.axes.push({ slider, mark, range, command: make(line, 'output', '', 'cmd'), is: make(line, 'output', '', 'is') });
    }
    get('script').onclick = () => this.script();
    const push = get('push');
    push.replaceChildren();
    for (const [sign, title, kick] of PUSHES) {
      const b = make(push, 'button', sign);
      b.title = title;
      b.setAttribute('aria-label', title);
      b.onclick = () => this.push(kick);
    }
  }

  private buildTerms(): void {
    const list = get('terms');
    list.replaceChildren();
    const rewards = this.hello.metrics.filter(m => m.startsWith('reward/'));
    this.rewards = rewards.length > 0;
    get('termsTitle').innerHTML = this.rewards ? 'Reward <small>a second, by term</small>' : 'Metrics';
    this.hello.metrics.forEach((m, at) => {
      const reward = m.startsWith('reward/');
      if (this.rewards ? !reward : SHOWN.has(m)) {
        return;
      }
      const line = make(list, 'div', '', reward ? 'term' : 'term plain');
      make(line, 'span', m.replace('reward/', '').replaceAll('_', ' ')).title = m;
      const bar = reward ? make(make(line, 'div', '', 'bar'), 'i') : null;
      this.terms.push({ at, bar, scale: reward ? 1 / this.hello.period : 1, value: make(line, 'b'), smooth: NaN });
    });
  }

  /** Whom a request is for. */
  private get target(): number {
    return get<HTMLInputElement>('everyone').checked ? ALL : this.selected;
  }

  toggle(): void {
    this.act.send({ do: this.paused ? 'resume' : 'pause' });
  }

  /** Asks for a velocity, kept within the sliders. */
  drive(v: [number, number, number]): void {
    this.held = performance.now() + 400;
    const command = v.map((x, i) => Math.min(Math.max(x, this.axes[i].range[0]), this.axes[i].range[1])) as [number, number, number];
    command.forEach((x, i) => this.axes[i].slider.value = String(x));
    this.act.send({ do: 'command', row: this.target, command });
  }

  script(): void {
    this.held = 0;
    this.act.send({ do: 'script', row: this.target });
  }

  push(kick: [number, number]): void {
    this.act.send({ do: 'push', row: this.target, kick });
  }

  select(row: number): void {
    this.selected = row;
    this.held = 0;
    this.terms.forEach(t => t.smooth = NaN);
    this.smooth.fill(NaN);
    this.sum = NaN;
    get('chosen').textContent = `Row ${row}`;
    this.chips.forEach((c, i) => c.setAttribute('aria-pressed', String(i === row)));
  }

  follow(f: Follow): void {
    for (const b of get('follow').querySelectorAll('button')) {
      b.setAttribute('aria-pressed', String(b.dataset.follow === f));
    }
  }

  /** Takes every frame: what must not be missed between two calls of show. */
  take(f: Frame, before: Frame | null): void {
    this.paused = f.paused;
    f.rows.forEach((r, i) => {
      if (before && r.falls > before.rows[i].falls) {
        this.fallen[i] = performance.now() + 1500;
      }
    });
    if (before && f.step === before.step) {
      return;
    }
    const r = f.rows[this.selected], mix = (old: number, now: number) => Number.isNaN(old) ? now : old + 0.1 * (now - old);
    this.smooth.forEach((v, i) => this.smooth[i] = mix(v, r.measured[i]));
    this.sum = mix(this.sum, r.reward / this.hello.period);
    for (const t of this.terms) {
      t.smooth = mix(t.smooth, r.metrics[t.at] * t.scale);
    }
  }

  /** Writes the newest frame into the page; rate is simulated over real time. */
  show(f: Frame, rate: number): void {
    const r = f.rows[this.selected], now = performance.now();
    get('pause').textContent = f.paused ? 'Resume' : 'Pause';
    for (const b of get('speed').querySelectorAll('button')) {
      b.setAttribute('aria-pressed', String(Math.abs(Number(b.dataset.speed) - f.speed) < 1e-6));
    }
    get('clock').textContent = `${fixed(f.time)} s` + (f.paused ? ', paused' : rate > 0 ? `, ${fixed(rate)} × real time` : '') +
      (f.viewers > 1 ? `, ${f.viewers} look` : '') + (f.bad > 0 ? `, physics went bad ${f.bad} times` : '');
    this.chips.forEach((c, i) => {
      c.classList.toggle('fell', now < this.fallen[i]);
      c.classList.toggle('steered', f.rows[i].steered);
    });
    this.facts.height.textContent = `${fixed(r.pos[2], 3)} m`;
    this.facts.power.textContent = `${fixed(r.power, 0)} W`;
    this.facts.falls.textContent = String(r.falls);
    this.facts.episode.textContent = String(r.episodes + 1);
    this.facts.command.textContent = r.steered ? 'yours' : 'the script';
    // A row just chosen, with time at rest: its present values stand for the smoothed ones.
    this.smooth.forEach((v, i) => this.smooth[i] = Number.isNaN(v) ? r.measured[i] : v);
    this.terms.forEach(t => t.smooth = Number.isNaN(t.smooth) ? r.metrics[t.at] * t.scale : t.smooth);
    this.sum = Number.isNaN(this.sum) ? r.reward / this.hello.period : this.sum;
    this.showAxes(r, now);
    this.showTerms();
  }

  private showAxes(r: Row, now: number): void {
    this.axes.forEach((a, i) => {
      const [lo, hi] = a.range;
      a.command.value = fixed(r.command[i]);
      a.is.value = fixed(this.smooth[i]);
      if (now > this.held) {
        a.slider.value = String(r.command[i]);
      }
      const share = Math.min(Math.max((this.smooth[i] - lo) / (hi - lo), 0), 1);
      a.mark.style.left = `calc(8px + (100% - 16px) * ${share.toFixed(4)})`; // a slider's thumb is 16 px wide
    });
  }

  private showTerms(): void {
    const highest = Math.max(0.1, ...this.terms.filter(t => t.bar).map(t => Math.abs(t.smooth) || 0));
    this.widest = Math.max(highest, 0.98 * this.widest);
    for (const t of this.terms) {
      t.value.textContent = fixed(t.smooth, 3);
      if (t.bar) {
        const half = Math.min(50 * Math.abs(t.smooth) / this.widest, 50) || 0;
        t.bar.className = t.smooth < 0 ? 'minus' : 'plus';
        t.bar.style.left = `${t.smooth < 0 ? 50 - half : 50}%`;
        t.bar.style.width = `${half}%`;
      }
    }
    get('total').textContent = this.rewards ? fixed(this.sum, 2) : '';
  }
}

// The keyboard.

import { KICK, type Panel } from './panel';

const WALK: Record<string, [number, number]> = { // axis, sign
  KeyW: [0, 1], KeyS: [0, -1], KeyA: [1, 1], KeyD: [1, -1], KeyQ: [2, 1], KeyE: [2, -1],
};
const PACE = [0.8, 0.4, 0.8]; // m/s, m/s, rad/s while a key is held
const PUSH: Record<string, [number, number]> = {
  ArrowUp: [KICK, 0], ArrowDown: [-KICK, 0], ArrowLeft: [0, KICK], ArrowRight: [0, -KICK],
};

export interface Moves {
  step(): void;
  next(by: number): void; // row
  camera(): void;
}

/** Listens until the page goes. */
export function listen(panel: () => Panel | null, moves: Moves): void {
  const held = new Set<string>();
  const drive = (p: Panel) => {
    const v: [number, number, number] = [0, 0, 0];
    held.forEach(k => v[WALK[k][0]] += WALK[k][1] * PACE[WALK[k][0]]);
    p.drive(v);
  };
  addEventListener('keydown', e => {
    const p = panel(), on = e.target as HTMLElement;
    if (!p || e.ctrlKey || e.metaKey || e.altKey) {
      return;
    }
    const inForm = on instanceof HTMLInputElement || on instanceof HTMLButtonElement;
    if (WALK[e.code]) {
      if (!e.repeat) {
        held.add(e.code);
        drive(p);
      }
    } else if (PUSH[e.code] && !(on instanceof HTMLInputElement)) { // arrows move a slider
      if (!e.repeat) {
        p.push(PUSH[e.code]);
      }
    } else if (e.code === 'Space' && !inForm) { // a space presses a button
      p.toggle();
    } else if (e.key === '.') {
      moves.step();
    } else if (e.key === '[' || e.key === ']') {
      moves.next(e.key === ']' ? 1 : -1);
    } else if (e.code === 'KeyR') {
      held.clear();
      p.script();
    } else if (e.code === 'KeyF') {
      moves.camera();
    } else {
      return;
    }
    e.preventDefault();
  });
  const release = (code: string) => {
    const p = panel();
    if (held.delete(code) && p) {
      drive(p);
    }
  };
  addEventListener('keyup', e => release(e.code));
  addEventListener('blur', () => [...held].forEach(release)); // a key let go elsewhere is not heard
}

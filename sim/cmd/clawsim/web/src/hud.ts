// What a video says over its picture: the panel is not in it.

import { type Hello, type Frame } from './protocol';

const FONT = 'system-ui, "DejaVu Sans", "Liberation Sans", sans-serif';

/** Writes policy, time, command and measured velocity (mean over the rows) into a picture. */
export function write(c: CanvasRenderingContext2D, hello: Hello, f: Frame): void {
  const mean = (of: (r: Frame['rows'][0]) => number) => f.rows.reduce((s, r) => s + of(r), 0) / f.rows.length;
  const falls = f.rows.reduce((s, r) => s + r.falls, 0);
  c.save();
  c.shadowColor = '#000c';
  c.shadowBlur = 4;
  c.textBaseline = 'top';
  const say = (text: string, x: number, y: number, colour: string, font: string) => {
    c.font = `${font} ${FONT}`;
    c.fillStyle = colour;
    c.fillText(text, x, y);
  };
  say(hello.policy, 28, 22, '#e6edf3', '600 24px');
  say(`${hello.rows} ${hello.rows > 1 ? 'rows' : 'row'}, physics ${hello.physics}` + (hello.world ? `, world ${hello.world}` : '') + (hello.fault ? `, fault ${hello.fault}` : ''), 28, 54, '#9aa7b4', '17px');
  say(`${f.time.toFixed(2)} s`, 28, 80, '#e6edf3', '17px');
  const y = c.canvas.height - 88, many = f.rows.length > 1;
  say('command', 28, y + 22, '#38bdf8', '17px');
  say(many ? 'measured, mean' : 'measured', 28, y + 46, '#4ade80', '17px');
  c.textAlign = 'right';
  ['vx m/s', 'vy m/s', 'wz rad/s'].forEach((name, i) => {
    const x = 270 + 90 * i, number = (v: number) => v.toFixed(2).replace(/^-(0\.00)$/, '$1');
    say(name, x, y, '#9aa7b4', '14px');
    say(number(mean(r => r.command[i])), x, y + 22, '#38bdf8', '17px');
    say(number(mean(r => r.measured[i])), x, y + 46, '#4ade80', '17px');
  });
  say(`falls ${falls}`, c.canvas.width - 28, 22, falls > 0 ? '#ff6b6b' : '#9aa7b4', '17px');
  c.restore();
}

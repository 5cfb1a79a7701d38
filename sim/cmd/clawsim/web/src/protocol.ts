// What the program and the page say to each other; the table is in ../../view_proto.go.

export interface Plan {
  video: boolean; // false: only the last frame is looked at
  format: 'webm' | 'mp4';
  width: number;
  height: number;
  fps: number;
  every: number; // steps a picture
}

export interface Robot {
  hip_x: number; // m, as all of these
  hip_y: number;
  hip_offset: number;
  thigh: number;
  calf: number;
  foot_radius: number;
}

export type Range = [number, number];

export interface Hello {
  v: number;
  policy: string;
  physics: string;
  world: string;
  fault: string;
  rows: number; // shown
  all_rows: number; // simulated
  period: number; // s
  metrics: string[];
  command: { vx: Range; vy: Range; wz: Range };
  robot: Robot;
  record: Plan | null;
}

export const VERSION = 1;
export const ALL = -1; // rows of a request

const HEAD = 32; // bytes
const ROW_WORDS = 34;
const PAUSED = 1, LAST = 2;
const STEERED = 1 << 4;

/** One row of a frame; the arrays are views of the message. */
export interface Row {
  pos: Float32Array; // m, world
  quat: Float32Array; // w x y z
  q: Float32Array; // rad
  force: Float32Array; // N, by foot
  measured: Float32Array; // vx, vy (m/s, at the IMU, trunk frame), yaw rate (rad/s)
  command: Float32Array;
  reward: number;
  power: number; // W
  contact: boolean[];
  steered: boolean; // by a person
  falls: number;
  episodes: number;
  metrics: Float32Array;
}

export interface Frame {
  paused: boolean;
  last: boolean;
  viewers: number;
  step: number;
  speed: number; // 1: real time
  time: number; // s, simulated
  bad: number; // episodes ended by bad physics
  refused: number; // messages
  rows: Row[];
}

/** Reads a frame; what is not one is an error. */
export function decodeFrame(b: ArrayBuffer): Frame {
  const head = new DataView(b);
  if (b.byteLength < HEAD || head.getUint8(0) !== 1) {
    throw new Error(`not a frame: ${b.byteLength} bytes`);
  }
  const flags = head.getUint8(1), rows = head.getUint16(2, true), metrics = head.getUint16(4, true);
  const words = ROW_WORDS + metrics;
  if (b.byteLength !== HEAD + 4 * rows * words) {
    throw new Error(`a frame of ${rows} rows has ${b.byteLength} bytes, want ${HEAD + 4 * rows * words}`);
  }
  const frame: Frame = {
    paused: (flags & PAUSED) !== 0, last: (flags & LAST) !== 0,
    viewers: head.getUint16(6, true), step: head.getUint32(8, true), speed: head.getFloat32(12, true),
    time: head.getFloat64(16, true), bad: head.getUint32(24, true), refused: head.getUint32(28, true), rows: [],
  };
  for (let i = 0; i < rows; i++) {
    let at = HEAD + 4 * i * words;
    const floats = (n: number) => {
      const f = new Float32Array(b, at, n);
      at += 4 * n;
      return f;
    };
    const pos = floats(3), quat = floats(4), q = floats(12), force = floats(4), measured = floats(3), command = floats(3);
    const [reward, power] = floats(2);
    const [bits, falls, episodes] = new Uint32Array(b, at, 3);
    at += 12;
    frame.rows.push({
      pos, quat, q, force, measured, command, reward, power, falls, episodes,
      contact: [0, 1, 2, 3].map(leg => (bits & (1 << leg)) !== 0),
      steered: (bits & STEERED) !== 0,
      metrics: floats(metrics),
    });
  }
  return frame;
}

export type Request =
  | { do: 'pause' } | { do: 'resume' } | { do: 'step' }
  | { do: 'speed'; speed: number }
  | { do: 'command'; row: number; command: [number, number, number] }
  | { do: 'script'; row: number }
  | { do: 'push'; row: number; kick: [number, number] }
  | { do: 'ready'; codec: string } | { do: 'drawn'; step: number } | { do: 'saved' } | { do: 'failed'; error: string };

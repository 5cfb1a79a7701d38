// A Go1's looks: one geometry a kind of body, coloured by vertex, in the frame its instances are placed by. Sizes are those of
// sim/mujoco/assets/go1_full.xml, with covers that collide with nothing. Few vertices: videos are rendered without a graphics card.

import * as THREE from 'three';
import { RoundedBoxGeometry } from 'three/examples/jsm/geometries/RoundedBoxGeometry.js';
import { mergeGeometries, mergeVertices } from 'three/examples/jsm/utils/BufferGeometryUtils.js';
import type { Robot } from './protocol';

const SHELL = 0xe4e8ec, SHELL_SHADE = 0xb9c0c8, DARK = 0x3a424b, DARKER = 0x20252b, GLOW = 0x7dd3fc, MOTOR = 0x59636e;

type Place = { at?: [number, number, number]; turn?: [number, number, number] };

/** paint places a part and gives it one colour. */
function paint(part: THREE.BufferGeometry, colour: number, place: Place = {}): THREE.BufferGeometry {
  const g = part.index ? part.toNonIndexed() : part;
  if (place.turn) {
    g.applyMatrix4(new THREE.Matrix4().makeRotationFromEuler(new THREE.Euler(...place.turn)));
  }
  if (place.at) {
    g.translate(...place.at);
  }
  const c = new THREE.Color(colour), n = g.attributes.position.count, rgb = new Float32Array(3 * n);
  for (let i = 0; i < n; i++) {
    rgb.set([c.r, c.g, c.b], 3 * i);
  }
  g.setAttribute('color', new THREE.BufferAttribute(rgb, 3));
  g.deleteAttribute('uv');
  return g;
}

function merged(parts: THREE.BufferGeometry[]): THREE.BufferGeometry {
  const g = mergeVertices(mergeGeometries(parts), 1e-5);
  parts.forEach(p => p.dispose());
  return g;
}

const X = (a: number): Place['turn'] => [0, 0, a]; // a cylinder's y axis to x
const ALONG_X = X(Math.PI / 2), ALONG_Z: Place['turn'] = [Math.PI / 2, 0, 0];

function box(x: number, y: number, z: number, radius: number, segments = 1): THREE.BufferGeometry {
  return new RoundedBoxGeometry(x, y, z, segments, radius);
}

const tube = (radius: number, length: number, sides: number) => new THREE.CylinderGeometry(radius, radius, length, sides);

/** The trunk, with the abduction motors on its corners and the head. */
export function trunk(r: Robot): THREE.BufferGeometry {
  const parts = [
    paint(box(0.36, 0.0935, 0.114, 0.02), DARK),
    paint(box(0.34, 0.15, 0.06, 0.028, 2), SHELL, { at: [-0.005, 0, 0.04] }),
    paint(box(0.30, 0.152, 0.012, 0.006), GLOW, { at: [-0.005, 0, 0.018] }),
    paint(box(0.22, 0.06, 0.02, 0.009), SHELL_SHADE, { at: [-0.02, 0, 0.068] }),
    paint(box(0.24, 0.1, 0.03, 0.012), DARKER, { at: [0, 0, -0.048] }),
    // Head: neck, shell, dark face with two lights.
    paint(box(0.07, 0.07, 0.07, 0.018), DARK, { at: [0.2, 0, 0.005] }),
    paint(box(0.1, 0.115, 0.1, 0.03, 2), SHELL, { at: [0.252, 0, 0.012] }),
    paint(box(0.03, 0.098, 0.072, 0.014), DARKER, { at: [0.292, 0, 0.01] }),
    paint(new THREE.SphereGeometry(0.009, 6, 4), GLOW, { at: [0.305, 0.027, 0.018] }),
    paint(new THREE.SphereGeometry(0.009, 6, 4), GLOW, { at: [0.305, -0.027, 0.018] }),
  ];
  for (const fx of [1, -1]) {
    for (const s of [1, -1]) {
      parts.push(
        paint(tube(0.043, 0.06, 13), MOTOR, { turn: ALONG_X, at: [(r.hip_x - 0.028) * fx, r.hip_y * s, 0] }),
        paint(tube(0.03, 0.07, 10), DARKER, { turn: ALONG_X, at: [(r.hip_x - 0.028) * fx, r.hip_y * s, 0] }),
      );
    }
  }
  return merged(parts);
}

/** The hip: the thigh's motor, about its own centre, axis y. */
export function hip(): THREE.BufferGeometry {
  return merged([
    paint(tube(0.046, 0.04, 16), SHELL),
    paint(tube(0.034, 0.046, 13), DARK),
    paint(tube(0.03, 0.1, 10), DARK),
  ]);
}

/** The thigh, from its joint down. */
export function thigh(r: Robot): THREE.BufferGeometry {
  const half = r.thigh / 2;
  return merged([
    paint(tube(0.041, 0.03, 16), DARK),
    paint(box(0.05, 0.034, r.thigh * 0.55, 0.014), SHELL, { at: [0, 0, -half * 0.75] }),
    paint(new THREE.CapsuleGeometry(0.017, r.thigh - 0.02, 2, 8), SHELL_SHADE, { turn: ALONG_Z, at: [0, 0, -half] }),
    paint(tube(0.022, 0.036, 12), DARK, { at: [0, 0, -r.thigh] }),
  ]);
}

/** The calf, from the knee to where the foot begins. */
export function calf(r: Robot): THREE.BufferGeometry {
  return merged([
    paint(new THREE.CapsuleGeometry(0.0105, r.calf - 0.02, 2, 7), DARK, { turn: ALONG_Z, at: [0, 0, -r.calf / 2] }),
    paint(box(0.022, 0.02, 0.07, 0.008), MOTOR, { at: [0, 0, -0.04] }),
  ]);
}

/** The foot, about its centre; its colour says whether it touches. */
export function foot(r: Robot): THREE.BufferGeometry {
  return new THREE.SphereGeometry(r.foot_radius, 12, 8);
}

// All robots, drawn as a handful of instanced meshes: a kind of body is one draw call however many rows there are.

import * as THREE from 'three';
import { Arrows } from './arrows';
import type { Robot, Row } from './protocol';
import * as shapes from './shapes';

export const COLOURS = { command: 0x38bdf8, measured: 0x4ade80, contact: 0xffa53d, air: 0x15181c };

const FX = [1, 1, -1, -1], SIDE = [-1, 1, -1, 1]; // FR FL RR RL: front, left

/** How a row stands: what moves between two frames. */
export interface Pose {
  x: number; // m, shown: the world's plus the row's place
  y: number;
  z: number;
  quat: THREE.Quaternion;
  q: Float32Array;
}

export class Herd {
  private readonly trunks: THREE.InstancedMesh;
  private readonly hips: THREE.InstancedMesh;
  private readonly thighs: THREE.InstancedMesh;
  private readonly calves: THREE.InstancedMesh;
  private readonly feet: THREE.InstancedMesh;
  private readonly commands: Arrows;
  private readonly speeds: Arrows;
  private readonly commandTurns: Arrows;
  private readonly turns: Arrows;
  private readonly forces: Arrows;
  private readonly touching = new THREE.Color(COLOURS.contact);
  private readonly air = new THREE.Color(COLOURS.air);
  /** Feet as drawn, for tests: centre of each, m, (rows x 4 x 3), without the row's place. */
  readonly footAt: Float32Array;

  constructor(scene: THREE.Scene, private readonly robot: Robot, readonly rows: number) {
    const body = new THREE.MeshStandardMaterial({ vertexColors: true, roughness: 0.5, metalness: 0.15 });
    const rubber = new THREE.MeshStandardMaterial({ roughness: 0.7 });
    const mesh = (g: THREE.BufferGeometry, m: THREE.Material, n: number) => {
      const i = new THREE.InstancedMesh(g, m, n);
      i.castShadow = i.receiveShadow = true;
      i.frustumCulled = false;
      i.instanceMatrix.setUsage(THREE.DynamicDrawUsage);
      scene.add(i);
      return i;
    };
    this.trunks = mesh(shapes.trunk(robot), body, rows);
    this.hips = mesh(shapes.hip(), body, 4 * rows);
    this.thighs = mesh(shapes.thigh(robot), body, 4 * rows);
    this.calves = mesh(shapes.calf(robot), body, 4 * rows);
    this.feet = mesh(shapes.foot(robot), rubber, 4 * rows);
    for (let i = 0; i < 4 * rows; i++) {
      this.feet.setColorAt(i, this.air);
    }
    this.commands = new Arrows(scene, COLOURS.command, rows, 0.011);
    this.speeds = new Arrows(scene, COLOURS.measured, rows, 0.011);
    this.commandTurns = new Arrows(scene, COLOURS.command, rows, 0.008);
    this.turns = new Arrows(scene, COLOURS.measured, rows, 0.008);
    this.forces = new Arrows(scene, COLOURS.contact, 4 * rows, 0.006);
    this.footAt = new Float32Array(rows * 12);
  }

  private readonly at = new THREE.Matrix4();
  private readonly leg = new THREE.Matrix4();
  private readonly step = new THREE.Matrix4();
  private readonly from = new THREE.Vector3();
  private readonly along = new THREE.Vector3();
  private readonly one = new THREE.Vector3(1, 1, 1);

  /** Places a row; place is where its world's origin is shown. */
  put(row: number, pose: Pose, place: THREE.Vector2, r: Row): void {
    const { at, leg, step, from, along, robot } = this;
    at.compose(from.set(pose.x, pose.y, pose.z), pose.quat, this.one);
    this.trunks.setMatrixAt(row, at);
    for (let l = 0; l < 4; l++) {
      const i = 4 * row + l, q = 3 * l;
      leg.copy(at)
        .multiply(step.makeTranslation(robot.hip_x * FX[l], robot.hip_y * SIDE[l], 0))
        .multiply(step.makeRotationX(pose.q[q]))
        .multiply(step.makeTranslation(0, robot.hip_offset * SIDE[l], 0));
      this.hips.setMatrixAt(i, leg);
      this.thighs.setMatrixAt(i, leg.multiply(step.makeRotationY(pose.q[q + 1])));
      leg.multiply(step.makeTranslation(0, 0, -robot.thigh)).multiply(step.makeRotationY(pose.q[q + 2]));
      this.calves.setMatrixAt(i, leg);
      this.feet.setMatrixAt(i, leg.multiply(step.makeTranslation(0, 0, -robot.calf)));
      this.feet.setColorAt(i, r.contact[l] ? this.touching : this.air);
      from.setFromMatrixPosition(leg);
      this.footAt.set([from.x - place.x, from.y - place.y, from.z], 12 * row + 3 * l);
      from.z -= robot.foot_radius;
      this.forces.put(i, from, along.set(0, 0, 0.002 * r.force[l]));
    }
    // Velocities lie flat above the trunk, in the direction it faces; turning moves the nose sideways.
    const { w, x, y, z } = pose.quat;
    const yaw = Math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)), c = Math.cos(yaw), s = Math.sin(yaw);
    const flat = (v: Float32Array) => along.set(c * v[0] - s * v[1], s * v[0] + c * v[1], 0).multiplyScalar(0.5);
    this.commands.put(row, from.set(pose.x, pose.y, pose.z + 0.2), flat(r.command));
    this.speeds.put(row, from.set(pose.x, pose.y, pose.z + 0.17), flat(r.measured));
    const nose = (up: number) => from.set(pose.x + 0.32 * c, pose.y + 0.32 * s, pose.z + up);
    const sideways = (wz: number) => along.set(-s * wz, c * wz, 0).multiplyScalar(0.2);
    this.commandTurns.put(row, nose(0.13), sideways(r.command[2]));
    this.turns.put(row, nose(0.1), sideways(r.measured[2]));
  }

  /** Hands what put changed to the graphics card. */
  commit(): void {
    for (const m of [this.trunks, this.hips, this.thighs, this.calves, this.feet]) {
      m.instanceMatrix.needsUpdate = true;
    }
    this.feet.instanceColor!.needsUpdate = true;
    for (const a of [this.commands, this.speeds, this.commandTurns, this.turns, this.forces]) {
      a.commit();
    }
  }

  /** The row under a ray, -1 if there is none. */
  pick(ray: THREE.Raycaster): number {
    let row = -1, nearest = Infinity;
    for (const [mesh, each] of [[this.trunks, 1], [this.hips, 4], [this.thighs, 4], [this.calves, 4]] as const) {
      mesh.computeBoundingSphere(); // of all instances, which have moved
      for (const hit of ray.intersectObject(mesh)) {
        if (hit.distance < nearest) {
          nearest = hit.distance;
          row = Math.floor(hit.instanceId! / each);
        }
      }
    }
    return row;
  }
}

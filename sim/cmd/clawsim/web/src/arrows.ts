// Many arrows of one colour: two instanced meshes, shafts and heads.

import * as THREE from 'three';

const UP = new THREE.Vector3(0, 1, 0);

export class Arrows {
  private readonly shafts: THREE.InstancedMesh;
  private readonly heads: THREE.InstancedMesh;
  private readonly turn = new THREE.Quaternion();
  private readonly at = new THREE.Matrix4();
  private readonly size = new THREE.Vector3();
  private readonly way = new THREE.Vector3();
  private readonly tip = new THREE.Vector3();

  constructor(scene: THREE.Scene, colour: number, n: number, private readonly radius: number) {
    const paint = new THREE.MeshBasicMaterial({ color: colour });
    const mesh = (g: THREE.BufferGeometry) => {
      const m = new THREE.InstancedMesh(g, paint, n);
      m.frustumCulled = false;
      m.instanceMatrix.setUsage(THREE.DynamicDrawUsage);
      scene.add(m);
      return m;
    };
    this.shafts = mesh(new THREE.CylinderGeometry(1, 1, 1, 8).translate(0, 0.5, 0));
    this.heads = mesh(new THREE.ConeGeometry(2.4, 5, 12).translate(0, 2.5, 0));
  }

  /** Arrow i begins at from and reaches by along, m; one too short to see is left out. */
  put(i: number, from: THREE.Vector3, along: THREE.Vector3): void {
    const r = this.radius, length = along.length();
    const scale = length < 0.01 ? 0 : Math.min(1, length / (6 * r)); // a short arrow is thin as well
    this.turn.setFromUnitVectors(UP, this.way.copy(along).divideScalar(length || 1));
    const head = 5 * r * scale;
    this.at.compose(from, this.turn, this.size.set(r * scale, scale && Math.max(length - head, 0), r * scale));
    this.shafts.setMatrixAt(i, this.at);
    this.tip.copy(from).addScaledVector(this.way, length - head);
    this.at.compose(this.tip, this.turn, this.size.setScalar(r * scale));
    this.heads.setMatrixAt(i, this.at);
  }

  commit(): void {
    this.shafts.instanceMatrix.needsUpdate = this.heads.instanceMatrix.needsUpdate = true;
  }
}

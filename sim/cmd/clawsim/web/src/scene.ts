// The world around the robots: floor, light, camera.

import * as THREE from 'three';
import { OrbitControls } from 'three/examples/jsm/controls/OrbitControls.js';
import { COLOURS, Herd, type Pose } from './herd';
import type { Frame, Hello, Row } from './protocol';

const BACKGROUND = 0x0d1117;
const SPACING = 1.25; // m between rows' starts

export type Follow = 'all' | 'row' | 'none';

/** What is remembered of a row from frame to frame. */
class Track {
  readonly before: Pose = { x: 0, y: 0, z: 0, quat: new THREE.Quaternion(), q: new Float32Array(12) };
  readonly now: Pose = { x: 0, y: 0, z: 0, quat: new THREE.Quaternion(), q: new Float32Array(12) };
  readonly shown: Pose = { x: 0, y: 0, z: 0, quat: new THREE.Quaternion(), q: new Float32Array(12) };
  episodes = 0;
  row: Row | null = null;

  constructor(readonly place: THREE.Vector2) {}

  /** Takes a frame. A row that began again goes on where it ended. */
  take(r: Row): void {
    const first = this.row === null, again = !first && r.episodes !== this.episodes;
    if (again) {
      this.place.set(this.now.x - r.pos[0], this.now.y - r.pos[1]);
    }
    this.row = r;
    this.episodes = r.episodes;
    copy(this.now, this.before);
    const n = this.now;
    n.x = r.pos[0] + this.place.x;
    n.y = r.pos[1] + this.place.y;
    n.z = r.pos[2];
    n.quat.set(r.quat[1], r.quat[2], r.quat[3], r.quat[0]);
    n.q = r.q;
    if (first || again) {
      copy(n, this.before);
    }
  }

  /** The pose a share of the way from the frame before to the newest one. */
  between(a: number): Pose {
    const { before: b, now: n, shown: s } = this;
    s.x = b.x + a * (n.x - b.x);
    s.y = b.y + a * (n.y - b.y);
    s.z = b.z + a * (n.z - b.z);
    s.quat.slerpQuaternions(b.quat, n.quat, a);
    for (let i = 0; i < 12; i++) {
      s.q[i] = b.q[i] + a * (n.q[i] - b.q[i]);
    }
    return s;
  }
}

function copy(from: Pose, to: Pose): void {
  to.x = from.x;
  to.y = from.y;
  to.z = from.z;
  to.quat.copy(from.quat);
  to.q.set(from.q);
}

export class Scene {
  readonly renderer: THREE.WebGLRenderer;
  readonly camera = new THREE.PerspectiveCamera(40, 1, 0.05, 80);
  readonly controls: OrbitControls;
  readonly herd: Herd;
  follow: Follow;
  selected = 0;
  private readonly scene = new THREE.Scene();
  private readonly sun = new THREE.DirectionalLight(0xffffff, 2.6);
  private readonly floor: THREE.Mesh;
  private readonly ring: THREE.Mesh;
  private readonly tracks: Track[] = [];
  private readonly aim = new THREE.Vector3();
  private readonly ray = new THREE.Raycaster();
  private aimed = false;
  private changed = true; // something to draw beside the rows' own movement

  constructor(canvas: HTMLCanvasElement, hello: Hello) {
    const fine = hello.record === null; // a video is rendered without a graphics card
    const r = new THREE.WebGLRenderer({ canvas, antialias: true, powerPreference: 'high-performance' });
    r.shadowMap.enabled = true;
    r.shadowMap.type = THREE.PCFShadowMap;
    r.toneMapping = THREE.ACESFilmicToneMapping;
    r.toneMappingExposure = 1.1;
    this.renderer = r;
    const s = this.scene;
    s.background = new THREE.Color(BACKGROUND);
    s.fog = new THREE.Fog(BACKGROUND, 9, 26);
    s.add(new THREE.HemisphereLight(0xd8e8ff, 0x4a525c, 1.5));
    const rim = new THREE.DirectionalLight(0x8ab4ff, 0.7);
    rim.position.set(-4, 3, 2);
    s.add(rim);
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.setScalar(fine ? 2048 : 1024);
    this.sun.shadow.bias = -0.0004;
    this.sun.shadow.normalBias = 0.01;
    s.add(this.sun, this.sun.target);
    this.floor = floor(fine ? r.capabilities.getMaxAnisotropy() : 1);
    s.add(this.floor);
    this.ring = new THREE.Mesh(new THREE.RingGeometry(0.36, 0.385, 64),
      new THREE.MeshBasicMaterial({ color: COLOURS.command, transparent: true, opacity: 0.75, depthWrite: false }));
    s.add(this.ring);
    this.herd = new Herd(s, hello.robot, hello.rows);
    const columns = Math.ceil(Math.sqrt(hello.rows));
    for (let i = 0; i < hello.rows; i++) {
      const across = Math.min(columns, hello.rows - columns * Math.floor(i / columns));
      this.tracks.push(new Track(new THREE.Vector2(-SPACING * Math.floor(i / columns), SPACING * ((across - 1) / 2 - i % columns))));
    }
    this.follow = hello.rows > 1 ? 'all' : 'row';
    const reach = SPACING * (columns - 1);
    const far = 1.5 + 0.95 * reach;
    const shadow = this.sun.shadow.camera, half = 1.2 + 0.75 * reach;
    shadow.left = shadow.bottom = -half;
    shadow.right = shadow.top = half;
    shadow.near = 1;
    shadow.far = 20;
    this.camera.up.set(0, 0, 1);
    this.camera.position.set(0.78 * far, -0.95 * far, 0.62 * far);
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.enableDamping = true;
    this.controls.dampingFactor = 0.12;
    this.controls.maxPolarAngle = 1.53;
    this.controls.minDistance = 0.4;
    this.controls.maxDistance = 20;
    this.controls.addEventListener('change', () => this.changed = true);
  }

  /** Fits the drawing to w x h; right is how much of its right side a panel covers. */
  fit(w: number, h: number, right: number, ratio: number): void {
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(w, h, false);
    this.camera.aspect = w / h;
    if (right > 0) {
      this.camera.setViewOffset(w, h, right / 2, 0, w, h);
    } else {
      this.camera.clearViewOffset();
    }
    this.camera.updateProjectionMatrix();
    this.changed = true;
  }

  take(f: Frame): void {
    f.rows.forEach((r, i) => this.tracks[i].take(r));
    this.changed = true;
  }

  select(row: number): void {
    this.selected = row;
    this.changed = true;
  }

  lookAt(f: Follow): void {
    this.follow = f;
    this.changed = true;
  }

  /** Whether there is anything new to draw: a page at rest leaves the machine alone. */
  stirs(): boolean {
    this.controls.update(); // says by its event if the camera still glides
    return this.changed;
  }

  /** Draws the rows a share of the way between the last two frames; dt is the s since the last drawing. */
  draw(share: number, dt: number): void {
    this.changed = share < 1;
    let x = 0, y = 0, n = 0;
    this.tracks.forEach((t, i) => {
      if (!t.row) {
        return;
      }
      const p = t.between(share);
      this.herd.put(i, p, t.place, t.row);
      if (this.follow === 'all' || i === this.selected) {
        x += p.x;
        y += p.y;
        n++;
      }
      if (i === this.selected) {
        this.ring.position.set(p.x, p.y, 0.003);
      }
    });
    this.herd.commit();
    this.ring.visible = n > 0 && this.tracks.length > 1;
    if (n > 0 && this.follow !== 'none') {
      this.lead(x / n, y / n, dt);
    }
    const at = this.controls.target;
    this.floor.position.set(2 * Math.round(at.x / 2), 2 * Math.round(at.y / 2), 0); // by whole tiles
    this.sun.target.position.set(at.x, at.y, 0);
    this.sun.position.set(at.x + 2.2, at.y + 2.6, 7);
    this.controls.update();
    this.renderer.render(this.scene, this.camera);
  }

  /** Moves camera and target together towards what is followed. */
  private lead(x: number, y: number, dt: number): void {
    const at = this.controls.target;
    this.aim.set(x - at.x, y - at.y, 0.2 - at.z);
    if (this.aimed) {
      this.aim.multiplyScalar(1 - Math.exp(-5 * dt));
    }
    this.aimed = true;
    at.add(this.aim);
    this.camera.position.add(this.aim);
    this.changed ||= this.aim.lengthSq() > 1e-8;
  }

  /** Where a row's trunk is on the screen, CSS pixels. */
  screen(row: number): [number, number] {
    const { x, y, z } = this.tracks[row].shown, at = new THREE.Vector3(x, y, z).project(this.camera);
    const box = this.renderer.domElement.getBoundingClientRect();
    return [box.left + (at.x + 1) / 2 * box.width, box.top + (1 - at.y) / 2 * box.height];
  }

  /** The row at a point of the canvas, each -1..1; -1: none. */
  pick(x: number, y: number): number {
    this.ray.setFromCamera(new THREE.Vector2(x, y), this.camera);
    return this.herd.pick(this.ray);
  }
}

/** A floor of square metres with finer lines, light enough to show shadows. */
function floor(anisotropy: number): THREE.Mesh {
  const size = 512, canvas = document.createElement('canvas');
  canvas.width = canvas.height = size;
  const c = canvas.getContext('2d')!;
  c.fillStyle = '#39424d';
  c.fillRect(0, 0, size, size);
  c.fillStyle = '#3d4652';
  c.fillRect(0, 0, size / 2, size / 2);
  c.fillRect(size / 2, size / 2, size / 2, size / 2);
  c.strokeStyle = '#46515d';
  c.lineWidth = 2;
  for (let i = 1; i < 8; i++) {
    c.strokeRect(i * size / 8, -4, size, 2 * size);
    c.strokeRect(-4, i * size / 8, 2 * size, size);
  }
  c.strokeStyle = '#5f6d7c';
  c.lineWidth = 4;
  for (const i of [0, 0.5, 1]) {
    c.strokeRect(i * size, -8, 4 * size, 4 * size);
    c.strokeRect(-8, i * size, 4 * size, 4 * size);
  }
  const map = new THREE.CanvasTexture(canvas);
  map.colorSpace = THREE.SRGBColorSpace;
  map.wrapS = map.wrapT = THREE.RepeatWrapping;
  map.repeat.set(40, 40); // 2 m a tile
  map.anisotropy = anisotropy;
  const mesh = new THREE.Mesh(new THREE.PlaneGeometry(80, 80), new THREE.MeshLambertMaterial({ map }));
  mesh.receiveShadow = true;
  return mesh;
}

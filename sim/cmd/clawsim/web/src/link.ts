// The WebSocket to the program; it comes back by itself when a person looks.

import { decodeFrame, type Frame, type Hello, type Request, VERSION } from './protocol';

export interface Listener {
  hello(h: Hello): void;
  frame(f: Frame): void;
  refused(why: string): void;
  finish(): void; // of a rendering
  state(connected: boolean, why: string): void;
}

export class Link {
  private socket: WebSocket | null = null;
  private wait = 500; // ms until the next try

  constructor(private readonly to: Listener, private readonly token: string) {
    this.open();
  }

  private open(): void {
    const query = this.token ? `?record=${encodeURIComponent(this.token)}` : '';
    const socket = new WebSocket(`ws://${location.host}/ws${query}`);
    socket.binaryType = 'arraybuffer';
    socket.onmessage = e => this.take(e.data);
    socket.onclose = e => {
      this.to.state(false, e.reason || 'The program does not answer.');
      if (!this.token) {
        setTimeout(() => this.open(), this.wait);
        this.wait = Math.min(this.wait * 1.5, 5000);
      }
    };
    this.socket = socket;
  }

  private take(data: ArrayBuffer | string): void {
    if (typeof data !== 'string') {
      this.to.frame(decodeFrame(data));
      return;
    }
    const m = JSON.parse(data);
    if (typeof m.refused === 'string') {
      this.to.refused(m.refused);
    } else if (m.finish) {
      this.to.finish();
    } else if (m.v === VERSION) {
      this.wait = 500;
      this.to.state(true, '');
      this.to.hello(m as Hello);
    } else {
      this.to.state(false, `The program speaks version ${m.v}, this page ${VERSION}: reload it.`);
    }
  }

  send(r: Request): void {
    if (this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send(JSON.stringify(r));
    }
  }

  /** Sends a piece of a video. */
  sendPiece(place: number, data: Uint8Array): void {
    const b = new Uint8Array(8 + data.byteLength);
    new DataView(b.buffer).setBigUint64(0, BigInt(place), true);
    b.set(data, 8);
    this.socket?.send(b);
  }
}

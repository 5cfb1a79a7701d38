// Rendering a run as a video: pictures of exact simulated times through WebCodecs, muxed and sent to the program in pieces.

import {
  CanvasSource, getFirstEncodableVideoCodec, Mp4OutputFormat, Output, Quality, StreamTarget, type VideoCodec, WebMOutputFormat,
} from 'mediabunny';
import * as hud from './hud';
import type { Frame, Hello, Plan } from './protocol';

// Royalty-free codecs first in WebM, what most players know first in MP4.
const CODECS: Record<Plan['format'], VideoCodec[]> = { webm: ['vp9', 'vp8'], mp4: ['avc', 'vp9', 'av1'] };

export class Recording {
  private pictures = 0;

  private constructor(
    private readonly hello: Hello, private readonly plan: Plan, private readonly view: HTMLCanvasElement,
    private readonly picture: CanvasRenderingContext2D, private readonly output: Output, private readonly source: CanvasSource,
    readonly codec: VideoCodec,
  ) {}

  /** Begins the video of what view shows; piece takes its bytes. */
  static async begin(hello: Hello, plan: Plan, view: HTMLCanvasElement, piece: (place: number, data: Uint8Array) => void): Promise<Recording> {
    const { width, height } = plan;
    const codec = await getFirstEncodableVideoCodec(CODECS[plan.format], { width, height });
    if (!codec) {
      throw new Error(`this browser encodes none of ${CODECS[plan.format].join(', ')} at ${width}x${height}`);
    }
    const canvas = document.createElement('canvas');
    canvas.width = width;
    canvas.height = height;
    const picture = canvas.getContext('2d', { alpha: false })!;
    const output = new Output({
      format: plan.format === 'webm' ? new WebMOutputFormat() : new Mp4OutputFormat(),
      target: new StreamTarget(new WritableStream({ write: chunk => piece(chunk.position, chunk.data) }), { chunked: true, chunkSize: 1 << 20 }),
    });
    const source = new CanvasSource(canvas, { codec, quality: new Quality({ quality: 'very-high', preferBitrate: true }) });
    output.addVideoTrack(source, { frameRate: plan.fps });
    await output.start();
    return new Recording(hello, plan, view, picture, output, source, codec);
  }

  /** Adds what view shows now, right after it was drawn. */
  async add(f: Frame): Promise<void> {
    this.picture.drawImage(this.view, 0, 0, this.plan.width, this.plan.height);
    hud.write(this.picture, this.hello, f);
    await this.source.add(this.pictures++ / this.plan.fps, 1 / this.plan.fps);
  }

  async finish(): Promise<void> {
    await this.output.finalize();
  }
}

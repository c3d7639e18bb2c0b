/**
 * Progress bars on a terminal, one per stream. Other output goes through `stderr`, which writes it above the bars.
 *
 * Invariant: without a terminal, no bar is drawn and `stderr` writes its text unchanged.
 */
import { MultiBar, Presets, type SingleBar } from 'cli-progress'
import type { Progress } from '../../extract/source.ts'
import type { Context, Output } from '../context.ts'

export interface ProgressBars extends Disposable {
  update(team: string, stream: string, progress: Progress): void
  /** Replaces standard error while there are bars: whole lines appear above them. */
  readonly stderr: Output
}

const ERASE_TO_END = '\u001b[K'

export function openProgress(context: Context, severalTeams: boolean): ProgressBars {
  if (context.stderr.isTTY !== true) {
    return { update: () => {}, stderr: context.stderr, [Symbol.dispose]: () => {} }
  }
  const bars = new Map<string, SingleBar>()
  const format = '{name} {bar} {value}/{total} records'
  const all = new MultiBar(
    {
      format,
      stream: context.stderr as unknown as NodeJS.WritableStream,
      hideCursor: true,
      clearOnComplete: false,
      // Lines above the bars move them down, so bars that did not change must be drawn again too.
      forceRedraw: true,
      fps: 8,
    },
    Presets.shades_classic,
  )
  function write(text: string): void {
    if (bars.size === 0) context.stderr.write(text)
    else all.log(text.replaceAll('\n', `${ERASE_TO_END}\n`))
  }
  return {
    update(team, stream, { fetched, expected }) {
      const name = (severalTeams ? `${team}/${stream}` : stream).padEnd(20)
      const bar = bars.get(name) ?? all.create(expected ?? fetched, 0, { name })
      bars.set(name, bar)
      bar.setTotal(Math.max(expected ?? fetched, fetched))
      bar.update(fetched)
    },
    stderr: { write, isTTY: true },
    [Symbol.dispose]: () => {
      if (bars.size > 0) all.update()
      all.stop()
    },
  }
}

/** Progress bars, one a stream, on a terminal only. Invariant: off a terminal nothing is written. */
import { MultiBar, Presets, type SingleBar } from 'cli-progress'
import type { Progress } from '../extract/source.ts'
import type { Context } from './context.ts'

export interface ProgressBars extends Disposable {
  update(team: string, stream: string, progress: Progress): void
}

export function openProgress(context: Context, severalTeams: boolean): ProgressBars {
  if (context.stderr.isTTY !== true) return { update: () => {}, [Symbol.dispose]: () => {} }
  const bars = new Map<string, SingleBar>()
  const format = '{name} {bar} {value}/{total} records'
  const all = new MultiBar(
    {
      format,
      stream: context.stderr as unknown as NodeJS.WritableStream,
      hideCursor: true,
      clearOnComplete: false,
      fps: 8,
    },
    Presets.shades_classic,
  )
  return {
    update(team, stream, { fetched, expected }) {
      const name = (severalTeams ? `${team}/${stream}` : stream).padEnd(20)
      const bar = bars.get(name) ?? all.create(expected ?? fetched, 0, { name })
      bars.set(name, bar)
      bar.setTotal(Math.max(expected ?? fetched, fetched))
      bar.update(fetched)
    },
    [Symbol.dispose]: () => all.stop(),
  }
}

/**
 * What commands that run something share. Alerts at the end, for installations without `serve`: an alert that a few tries
 * could not post is left to the next round. And progress bars on a terminal, one per stream: other output goes through `stderr`, which writes it above the bars.
 * Without a terminal, a line of the log every ten seconds.
 *
 * Invariant: alerts never throw and never change the exit code. Without a terminal, no bar is drawn and `stderr` writes its text unchanged.
 */
import { MultiBar, Presets, type SingleBar } from 'cli-progress'
import type { Logger } from 'pino'
import type { Config } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import type { Progress } from '../../extract/source.ts'
import { runRound } from '../../operate/alerts/round.ts'
import { openWebhookChecks } from '../../operate/health/webhook-checks.ts'
import type { Planned } from '../../reconcile/slices.ts'
import { type Context, type Output, printJson } from '../context.ts'

export interface ProgressBars extends Disposable {
  update(team: string, stream: string, progress: Progress): void
  /** Replaces standard error while there are bars: whole lines appear above them. */
  readonly stderr: Output
}

const ERASE_TO_END = '\u001b[K'

/** `now` in milliseconds. */
export function openProgress(
  context: Context,
  severalTeams: boolean,
  now: () => number = () => performance.now(),
): ProgressBars {
  if (context.stderr.isTTY !== true) {
    return { update: progressLines(context, now), stderr: context.stderr, [Symbol.dispose]: () => {} }
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

const LINE_MS = 10_000

interface Part extends Progress {
  readonly team: string
  readonly stream: string
  readonly since: number
  readonly before: number
}

/**
 * Every ten seconds, one line of JSON, like those of the log, for each stream that went on since the last line: with
 * the rate since its first page, and the seconds that are left at that rate.
 */
function progressLines({ stderr, env }: Context, now: () => number): ProgressBars['update'] {
  if (!['', 'trace', 'debug', 'info'].includes(env.LOG_LEVEL ?? '')) return () => {}
  const parts = new Map<string, Part>()
  const changed = new Set<string>()
  let last = now()
  return (team, stream, { fetched, expected }) => {
    const at = now()
    const key = `${team}/${stream}`
    const { since, before } = parts.get(key) ?? { since: at, before: fetched }
    parts.set(key, { team, stream, fetched, expected, since, before })
    changed.add(key)
    if (at - last < LINE_MS) return
    last = at
    for (const name of changed) stderr.write(`${JSON.stringify(lineOf(parts.get(name)!, at))}\n`)
    changed.clear()
  }
}

function lineOf({ team, stream, fetched, expected, since, before }: Part, at: number) {
  const rate = at > since ? (fetched - before) / ((at - since) / 1000) : 0
  const left = expected === null || rate === 0 ? null : Math.max(0, Math.round((expected - fetched) / rate))
  const figures = { fetched, expected, per_second: Math.round(rate * 10) / 10, seconds_left: left }
  return { level: 30, time: Date.now(), team, stream, ...figures, msg: 'progress' }
}

/** Pauses before another try, after a failed post or while another process posts. */
const PAUSES_MS = [1_000, 3_000] as const

export function alertsAtEnd(
  { signal, version }: Pick<Context, 'signal' | 'version'>,
  { alerts, ingestTeams, inboxDays }: Pick<Config, 'alerts' | 'ingestTeams' | 'inboxDays'>,
  place: { readonly url: string; readonly logger: Logger },
): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      if (alerts === null) return
      const teams = ingestTeams.map(({ name }) => name)
      const webhookChecks = openWebhookChecks({ inboxDays })
      const options = {
        ...place,
        settings: alerts,
        teams,
        webhookChecks,
        clock: systemClock,
        signal,
        version,
      }
      for (const pause of [...PAUSES_MS, null]) {
        // The user has interrupted the command and expects it to end.
        if (signal.aborted) return
        const outcome = await runRound(options, { thorough: true, insist: true })
        if (outcome === 'posted' || outcome === 'quiet' || pause === null) return
        await systemClock.sleep(pause, signal).catch(() => {})
      }
    },
  }
}

/** The end of `--detach`. `document`: the document of `--json` without streams; null for text. */
export function printPlanned(
  context: Context,
  { runId, slices, workers }: Planned,
  document: object | null,
): void {
  const id = Number(runId)
  if (document !== null) {
    printJson(context, { run_id: id, status: 'planned', ...document, slices, workers })
    return
  }
  const more =
    workers === 0 ? 'no worker is running: start intake-sync work, or serve' : `workers: ${workers}`
  context.stdout.write(
    `run ${id} is planned: ${slices} slices; intake-sync runs show ${id} shows how far it is\n${more}\n`,
  )
}

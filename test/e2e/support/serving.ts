/** Runs `serve` as a process of its own, and reads its metrics and state. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Ended, type Running, startCli, type Variables } from '../../support/cli.ts'
import { runCommand } from '../../support/run-command.ts'
import { query, type Scene } from './scene.ts'

/** Any free ports, and a key with which secrets are encrypted. */
export const ANYWHERE: Variables = {
  INTAKE_WEBHOOK_PORT: '0',
  INTAKE_ADMIN_PORT: '0',
  INTAKE_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
}

export interface ServingProcess {
  readonly running: Running
  /** The JSON document of `--json`. */
  readonly document: {
    readonly webhooks: string | null
    readonly admin: string
    readonly next_backfill: string | null
    readonly off: Readonly<Record<string, string>>
  }
  get(path: string): Promise<{ status: number; text: string }>
  /** The value of one sample, by its name and labels as printed; null if there is none. */
  metric(sample: string): Promise<number | null>
  stop(signal?: NodeJS.Signals): Promise<Ended>
}

/** Starts it and waits until it is ready. */
export async function startServing(env: Variables, ...args: string[]): Promise<ServingProcess> {
  const running = startCli(['serve', '--json', ...args], { ...ANYWHERE, ...env })
  await running.said('\n}\n')
  const document = JSON.parse(running.output()) as ServingProcess['document']
  const get = async (path: string) => {
    const response = await fetch(`${document.admin}${path}`)
    return { status: response.status, text: await response.text() }
  }
  return {
    ...{ running, document, get },
    async metric(sample) {
      const lines = (await get('/metrics')).text.split('\n')
      const line = lines.find((each) => each.startsWith(`${sample} `))
      return line === undefined ? null : Number(line.slice(sample.length + 1))
    },
    stop(signal = 'SIGTERM') {
      running.process.kill(signal)
      return running.ended
    },
  }
}

/** Runs `webhooks create` for every event; returns the configuration's id. */
export async function createWebhook(env: Variables, url: string): Promise<string> {
  const run = await runCommand(['webhooks', 'create', '--url', url, '--json'], { ...ANYWHERE, ...env })
  if (run.code !== 0) throw new Error(`the webhook was not created: ${run.stderr}`)
  return (JSON.parse(run.stdout) as { id: string }).id
}

/** Waits until the service has only retries to send, and everything that it sent is in the tables. */
export async function settled({ emulator, url }: Scene): Promise<void> {
  const webhooks = emulator.control.webhooks()
  await until('the service has sent everything', () => webhooks.pending === 0)
  await until('everything is drained', async () => {
    const [waiting] = await query<{ events: number; refetches: number }>(
      url,
      `select (select count(*)::int from intake_raw.inbox where status = 'pending') as events,
         (select count(*)::int from intake_ops.refetches) as refetches`,
    )
    return waiting!.events + waiting!.refetches === 0
  })
}

/** Advances the service's clock until only messages `ofOld` are scheduled: nothing changes on its own. */
export async function quiet({ emulator: { control } }: Scene, ofOld: number): Promise<void> {
  const { messages } = control.world()
  control.advance(60_000)
  await until('no message waits', () => {
    for (let at = ofOld; at < messages.end; at++) {
      if (['pending', 'scheduled'].includes(messages.at(at)?.status ?? '')) return false
    }
    return true
  })
}

export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  milliseconds = 60_000,
): Promise<void> {
  for (const deadline = Date.now() + milliseconds; !(await condition()); await sleep(20)) {
    if (Date.now() > deadline) throw new Error(`waited in vain until ${what}`)
  }
}

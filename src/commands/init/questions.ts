/** The questions of `init`. Invariant: only a terminal is asked; secrets are not shown while they are typed. */
import type { Readable, Writable } from 'node:stream'
import type { Check } from '../../operate/doctor/check.ts'
import { type Context, ExitCode } from '../context.ts'
import { DEPLOYMENTS, type Deployment } from './deploy.ts'
import type { Settings } from './settings-json.ts'

export interface Terminal {
  readonly input: Readable & { readonly isTTY?: boolean }
  readonly output: Writable & { readonly isTTY?: boolean }
}

export interface Questions extends AsyncDisposable {
  /** The settings without which nothing can be tried. The warehouse is asked for the first time only. */
  missing(settings: Settings, isFirst: boolean): Promise<Settings>
  /** Other credentials, after the service refused those; null to give up. */
  again(failure: Check): Promise<Settings | null>
  further(): Promise<{ webhookUrl?: string; deploy?: Deployment }>
}

/** Null off a terminal. */
export async function openQuestions(
  { signal }: Context,
  terminal: Terminal = { input: process.stdin, output: process.stderr },
): Promise<Questions | null> {
  const { input, output } = terminal
  if (input.isTTY !== true || output.isTTY !== true) return null
  const clack = await import('@clack/prompts')
  const common = { input, output, signal }
  const answered = <Value>(value: Value): Exclude<Value, symbol> => {
    if (!clack.isCancel(value)) return value as Exclude<Value, symbol>
    throw signal.aborted ? signal.reason : new ExitCode(130)
  }
  const text = async (message: string, placeholder: string, isOptional = false) => {
    const validate = (value: string | undefined) =>
      isOptional || (value ?? '').trim() !== '' ? undefined : 'Write something.'
    return (answered(await clack.text({ ...common, message, placeholder, validate })) ?? '').trim()
  }
  const secret = async (message: string) => answered(await clack.password({ ...common, message })).trim()
  const credentials = async () => ({
    INTAKE_API_KEY: await secret('Its API key'),
    INTAKE_API_SECRET: await secret('Its API secret'),
  })
  return {
    async missing(settings, isFirst) {
      const own: Record<string, string> = {}
      const isSet = (name: string) => (settings[name] ?? settings[`${name}_FILE`]) !== undefined
      if (isSet('INTAKE_CONFIG')) return own
      if (!isSet('INTAKE_BASE_URL'))
        own.INTAKE_BASE_URL = await text('Address of the service', 'https://intake.example.com')
      if (!isSet('INTAKE_API_KEY') || !isSet('INTAKE_API_SECRET')) Object.assign(own, await credentials())
      if (!isFirst || isSet('DATABASE_URL')) return own
      const url = await text(
        'Warehouse (leave empty for an embedded Postgres)',
        'postgres://user@host/database',
        true,
      )
      return url === '' ? own : { ...own, DATABASE_URL: url }
    },
    async again({ name, detail }) {
      clack.log.warn(`${name}: ${detail}`, { output })
      const retry = answered(await clack.confirm({ ...common, message: 'Try other credentials?' }))
      return retry ? await credentials() : null
    },
    async further() {
      const webhookUrl = await text(
        'Public address of serve for webhooks (leave empty for none)',
        'https://…/webhooks',
        true,
      )
      const options = [
        { value: 'none' as const, label: 'not now' },
        ...Object.entries(DEPLOYMENTS).map(([value, label]) => ({ value: value as Deployment, label })),
      ]
      const deploy = answered(await clack.select({ ...common, message: 'How will it run?', options }))
      return { ...(webhookUrl === '' ? {} : { webhookUrl }), ...(deploy === 'none' ? {} : { deploy }) }
    },
    async [Symbol.asyncDispose]() {
      input.pause()
    },
  }
}

/** A console over a warehouse of the test, and readers of it with a role. */
import { setTimeout as sleep } from 'node:timers/promises'
import pino from 'pino'
import { openConsole } from '../../../src/console/server.ts'
import type { ConsoleOptions } from '../../../src/console/shared.ts'
import { systemClock } from '../../../src/core/clock.ts'
import type { Role } from '../../../src/core/peers.ts'

export interface Answer {
  readonly status: number
  readonly text: string
  readonly headers: Headers
}

export interface Reader {
  get(path: string): Promise<Answer>
  head(path: string): Promise<Answer>
  /** Sends a form, with the token of the session unless `fields` has one. */
  post(
    path: string,
    fields?: Readonly<Record<string, string>> | readonly (readonly [string, string])[],
    headers?: Record<string, string>,
  ): Promise<Answer>
}

export async function startConsole(url: string, options: Partial<ConsoleOptions> = {}) {
  const logged: string[] = []
  const printed: string[] = []
  const opened = await openConsole({
    ...{
      url,
      host: '127.0.0.1',
      port: 0,
      publicUrl: null,
      proxy: null,
      linkRole: 'operator' as const,
      login: 'ada',
      teams: [],
    },
    ...{
      metricsUrl: 'http://127.0.0.1:9/metrics',
      inboxDays: 30,
      retention: { historyDays: 400, runDays: null },
      maxAgeHours: 26,
      settings: [],
      checks: async () => [],
    },
    onLink: (link) => void printed.push(link),
    ...{ clock: systemClock, random: Math.random, version: '1.2.3' },
    logger: pino({ base: null }, { write: (line: string) => void logged.push(line) }),
    ...options,
  })

  /** A reader without a session, or with this cookie. */
  const reader = (cookie = '', token = ''): Reader => {
    const send = async (path: string, init: RequestInit): Promise<Answer> => {
      const response = await fetch(`http://127.0.0.1:${opened.port}${path}`, { redirect: 'manual', ...init })
      return { status: response.status, text: await response.text(), headers: response.headers }
    }
    return {
      get: (path) => send(path, { headers: { cookie } }),
      head: (path) => send(path, { method: 'HEAD', headers: { cookie } }),
      post: (path, fields = {}, headers = {}) =>
        send(path, {
          method: 'POST',
          headers: { cookie, ...headers },
          body: bodyOf(token, fields),
        }),
    }
  }

  /** Logs in with a new link. */
  const enter = async (
    role: Role,
    login: string = role,
  ): Promise<Reader & { readonly cookie: string; readonly token: string }> => {
    const link = new URL(opened.link(login, role)).searchParams.get('link')!
    const answer = await reader().post('/login', { link })
    const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? ''
    const page = await reader(cookie).get('/health')
    const token = /name="token" value="([^"]+)"/.exec(page.text)?.[1] ?? ''
    return { ...reader(cookie, token), cookie, token }
  }
  return { ...opened, reader, enter, logged, printed }
}

function bodyOf(token: string, fields: Parameters<Reader['post']>[1] = {}): URLSearchParams {
  const named = Array.isArray(fields) ? fields : Object.entries(fields)
  const own = named.some(([name]) => name === 'token') ? [] : [['token', token]]
  return new URLSearchParams([...own, ...named].map(([name, value]): [string, string] => [name!, value!]))
}

/** The page, once it has everything that it waits for. */
export async function whole(reader: Reader, path: string): Promise<string> {
  return (await wholeAnswer(reader, path)).text
}

export async function wholeAnswer(reader: Reader, path: string): Promise<Answer> {
  for (;;) {
    const answer = await reader.get(path)
    if (!answer.text.includes('data-waits')) return answer
    await sleep(100)
  }
}

/** A page as text. */
export const plain = (html: string): string =>
  html
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()

/** The rows of the table with this label, as texts without charts. */
export function tableIn(html: string, label: string): string[] {
  const table = new RegExp(`aria-label="${label}"[\\s\\S]*?<tbody>([\\s\\S]*?)</tbody>`).exec(html)![1]!
  return [...table.matchAll(/<tr>([\s\S]*?)<\/tr>/g)].map(([, row]) =>
    plain(row!.replace(/<svg[\s\S]*?<\/svg>/g, '')),
  )
}

/** The console as a process: it prints its address and a link, and ends on a signal. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runProgram } from '../../../src/commands/program.ts'
import { plain } from '../../console/support/console.ts'
import { marksIn } from '../../console/support/views.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { ANYWHERE } from '../../e2e/support/serving.ts'
import { startCli, type Variables } from '../../support/cli.ts'
import { freePort } from '../../support/free-port.ts'
import { runCommand } from '../../support/run-command.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>

beforeAll(async () => {
  warehouse = await openWarehouse()
})
afterAll(() => warehouse?.drop())

/** The page of health for who logs in with the link. */
async function pageOf(link: string): Promise<{ page: string }> {
  const { origin, searchParams } = new URL(link)
  const body = new URLSearchParams({ link: searchParams.get('link')! })
  const entered = await fetch(`${origin}/login`, { method: 'POST', redirect: 'manual', body })
  const cookie = entered.headers.get('set-cookie')!.split(';')[0]!
  return { page: await (await fetch(`${origin}/health`, { headers: { cookie } })).text() }
}

it('prints an address and a link that logs in, and ends with 0 on SIGTERM', async () => {
  const running = startCli(['console', '--port', '0'], { DATABASE_URL: warehouse.url })
  await running.said('log in, once: ')
  await running.said('\n')
  const [, url] = /console at (http:\/\/127\.0\.0\.1:\d+)\n/.exec(running.output())!
  const [, link] = /log in, once: (\S+)\n/.exec(running.output())!
  expect(link!.startsWith(`${url}/login?link=`)).toBe(true)
  const { page: text } = await pageOf(link!)
  expect(text).toMatch(/<span>\S+, operator<\/span>/)
  expect(text).toContain('INTAKE_CONSOLE_PORT')
  expect(text).not.toContain(new URL(warehouse.url).password || 'no server of these tests has this password')
  running.process.kill('SIGTERM')
  const ended = await running.ended
  expect(ended.code).toBe(0)
  expect(ended.stderr).toBe('')
})

it('serve --console serves it too, and prints where', async () => {
  const env = {
    ...ANYWHERE,
    DATABASE_URL: warehouse.url,
    INTAKE_CONSOLE_PORT: '0',
    INTAKE_CONSOLE_VALUES: '1',
  }
  const running = startCli(['serve', '--console', '--json', '--no-schedule'], env)
  await running.said('\n}\n')
  const document = JSON.parse(running.output()) as { console: string; console_link: string }
  expect(document.console_link.startsWith(`${document.console}/login?link=`)).toBe(true)
  expect((await fetch(document.console_link)).status).toBe(200)
  expect((await pageOf(document.console_link)).page).toMatch(/<span>\S+, steward<\/span>/)
  running.process.kill('SIGTERM')
  expect((await running.ended).code).toBe(0)
})

it('refuses an invalid port, and a database that is behind', async () => {
  const wrong = await runCommand(['console', '--port', '70000'], { DATABASE_URL: warehouse.url })
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).toContain('Use a port from 0 to 65535.')
  await using empty = await openWarehouse({ empty: true })
  expect((await runCommand(['console', '--port', '0'], { DATABASE_URL: empty.url })).code).toBe(1)
})

/** What the console says while the command runs; `words` name its port. */
async function whileOpen<Result>(
  env: Variables,
  port: number,
  ask: (get: (path: string) => Promise<string>, opened: { url: string; link: string }) => Promise<Result>,
): Promise<{ readonly code: number; readonly result: Result }> {
  const stop = new AbortController()
  const login = { 'x-login': 'ada' }
  const get = async (path: string): Promise<string> => {
    const text = await (await fetch(`http://127.0.0.1:${port}${path}`, { headers: login })).text()
    return text.includes('data-waits') ? await get(path) : text
  }
  let result: Promise<Result> | undefined
  const write = (text: string | Uint8Array) => {
    result ??= ask(get, JSON.parse(String(text))).finally(() => stop.abort('SIGTERM'))
  }
  const code = await runProgram(['console', '--json', '--port', String(port)], {
    env: {
      ...{ DATABASE_URL: warehouse.url, INTAKE_CONSOLE_LOGIN_HEADER: 'X-Login' },
      ...{ INTAKE_CONSOLE_PROXIES: '127.0.0.1', INTAKE_CONSOLE_ROLES: '*=viewer', ...env },
    },
    ...{ stdout: { write }, stderr: { write: () => true }, signal: stop.signal, version: '4.5.6' },
  })
  return { code, result: await result! }
}

it('its pages are of the settings: address, proxy, retention, checks, and the process that receives events', async () => {
  const receiver = createServer((_, response) => response.end('intake_events_received_total 7\n'))
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  const env = {
    ...{ INTAKE_CONSOLE_URL: 'https://console.example.org', INTAKE_INBOX_DAYS: '7' },
    ...{ INTAKE_HISTORY_DAYS: '90', INTAKE_RUN_DAYS: '20' },
    ...{ INTAKE_ADMIN_PORT: String((receiver.address() as AddressInfo).port) },
  }
  const { code, result } = await whileOpen(env, await freePort(), async (get, { url, link }) => ({
    ...{ url, link, health: plain(await get('/health')), inbox: plain(await get('/inbox')) },
  }))
  await new Promise((resolve) => receiver.close(resolve))
  expect([code, result.url]).toEqual([0, 'https://console.example.org'])
  expect(result.link).toMatch(/^https:\/\/console\.example\.org\/login\?link=/)
  for (const text of [
    'ada, viewer',
    'events of the inbox, once they are done 7 days INTAKE_INBOX_DAYS',
    'superseded payloads 90 days INTAKE_HISTORY_DAYS',
    'settled dead letters 20 days INTAKE_RUN_DAYS',
    'INTAKE_HISTORY_DAYS 90 environment',
    'credentials failed',
    'intake-sync 4.5.6',
  ])
    expect(result.health).toContain(text)
  expect(result.inbox).toContain('stored since its start 7')
})

it('a stream is late after the time of the alerts, and after 26 hours where there are none', async () => {
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('default') on conflict do nothing;
     insert into intake_ops.runs (kind, status, started_at, finished_at)
       select 'backfill', 'succeeded', now() - hours * interval '1 hour', now() - hours * interval '1 hour' from unnest(array[25, 27]) hours;
     insert into intake_ops.run_streams (run_id, team_id, stream, status)
       select run_id, 1, case when started_at > now() - interval '26 hours' then 'patients' else 'forms' end, 'succeeded' from intake_ops.runs`,
  )
  const marks = async (env: Variables) =>
    (await whileOpen(env, await freePort(), async (get) => marksIn(await get('/streams')))).result
  expect(await marks({})).toEqual(['good: 25 h ago', 'bad: 27 h ago'])
  const alerts = { INTAKE_ALERT_URL: 'https://alerts.example.org/x', INTAKE_ALERT_MAX_AGE: '24h' }
  expect(await marks(alerts)).toEqual(['bad: 25 h ago', 'bad: 27 h ago'])
})

/** The console as a process: it prints its address and a link, and ends on a signal. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openWarehouse } from '../../e2e/support/scene.ts'
import { ANYWHERE } from '../../e2e/support/serving.ts'
import { startCli } from '../../support/cli.ts'
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

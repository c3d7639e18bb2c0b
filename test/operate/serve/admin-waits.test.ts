/** `GET /wait` and the other answers of the admin server: who may wait, for how long, and when a wait ends. */
import { request } from 'node:http'
import { expect, it } from 'vitest'
import { openMetrics } from '../../../src/operate/health/registry.ts'
import { type AdminOptions, openAdmin } from '../../../src/operate/serve/admin.ts'

const open = (options: Partial<AdminOptions> = {}) =>
  openAdmin({
    ...{ host: '127.0.0.1', port: 0, registry: openMetrics().registry },
    ...{
      reasons: async () => [],
      refresh: async () => {},
      wait: () => Promise.reject(new Error('nothing waits')),
    },
    ...options,
  })

const PATH = '/wait?stream=patients&since=2026-01-05T02:00:00Z'
const FOUND = { stream: 'patients', id: null, since: 'then', by: 'run', as_of: 'now' } as const

async function answerOf(url: string): Promise<readonly [number, unknown]> {
  const response = await fetch(url)
  return [response.status, await response.json()]
}

it('twenty requests may wait at once; another is refused, and accepted as soon as one has its answer, failed or left', async () => {
  const waiting: { readonly signal: AbortSignal; end(how: 'reached' | 'late' | 'failed'): void }[] = []
  await using admin = await open({
    wait: (_, signal) =>
      new Promise((resolve, reject) => {
        waiting.push({
          signal,
          end(how) {
            if (how === 'failed') reject(new Error('of the test'))
            else resolve({ reached: how === 'reached', ...FOUND })
          },
        })
      }),
  })
  const full = [503, { detail: 'Too many requests are waiting.' }]
  const ask = () => answerOf(admin.url + PATH)
  const asked = Array.from({ length: 19 }, ask)
  const leaving = request(admin.url + PATH).on('error', () => {})
  leaving.end()
  await expect.poll(() => waiting.length).toBe(20)
  expect(await ask()).toEqual(full)
  expect(waiting.filter(({ signal }) => signal.aborted)).toEqual([])
  leaving.destroy()
  await expect.poll(() => waiting.filter(({ signal }) => signal.aborted).length).toBe(1)
  // The wait of somebody who has left ends when the signal says so; here it is the test that ends it.
  for (const each of waiting.filter(({ signal }) => signal.aborted)) each.end('late')
  const accepted = async () => {
    const number = waiting.length
    asked.push(ask())
    await expect.poll(() => waiting.length).toBe(number + 1)
    expect(await ask()).toEqual(full)
  }
  await accepted()
  const others = waiting.filter(({ signal }) => !signal.aborted)
  others[0]!.end('failed')
  expect((await Promise.race(asked))[0]).toBe(503)
  await accepted()
  others[1]!.end('reached')
  await expect.poll(async () => (await Promise.race(asked.slice(0, 19)))[0]).toBe(503)
  for (const each of waiting) each.end('late')
  const statuses = (await Promise.all(asked)).map(([status]) => status)
  expect(statuses.toSorted()).toEqual([200, 503, ...Array(19).fill(504)].toSorted())
})

it.each([
  [true, 200],
  [false, 504],
])(
  'whether it was reached (%s) is the status, and the answer says what showed it',
  async (reached, status) => {
    await using admin = await open({ wait: async () => ({ reached, ...FOUND }) })
    expect(await answerOf(admin.url + PATH)).toEqual([status, { reached, ...FOUND }])
  },
)

it('a request that says less or more than it may is refused, with the usage', async () => {
  await using admin = await open({ wait: async () => ({ reached: true, ...FOUND }) })
  const usage = {
    detail:
      'Use ?stream=patients&since=2026-01-05T02:11:09Z, with id, team and timeout (seconds, at most 300).',
  }
  for (const path of [
    ...['/wait', '/wait?stream=patients', '/wait?since=2026-01-05T02:00:00Z', `${PATH}&id=`],
    ...['301', '1000', '-1', '1.5', '', 'x'].map((timeout) => `${PATH}&timeout=${timeout}`),
    ...['/wait?stream=patients&since=yesterday', `${PATH}&stream=forms`, '/wait?stream=patients&since='],
  ])
    expect([path, ...(await answerOf(admin.url + path))]).toEqual([path, 400, usage])
  for (const more of ['&timeout=0', '&timeout=300', '&id=p', '&team='])
    expect([more, (await answerOf(admin.url + PATH + more))[0]]).toEqual([more, 200])
})

it('health waits for nothing, metrics for their figures; an error of its own is not shown, and closes nothing', async () => {
  const asked: string[] = []
  await using admin = await open({
    async reasons(part) {
      asked.push(part)
      throw new Error('a detail')
    },
    async refresh() {
      asked.push('metrics')
    },
  })
  expect(await answerOf(`${admin.url}/healthz`)).toEqual([200, { status: 'ok' }])
  expect(asked).toEqual([])
  for (const path of ['/readyz', '/readyz?part=work'])
    expect(await answerOf(admin.url + path)).toEqual([500, { detail: 'Internal error.' }])
  const parts = { detail: 'part is one of ingest, drain, schedule, work.' }
  for (const part of ['part=', 'part=all', 'part=drain&part=work'])
    expect(await answerOf(`${admin.url}/readyz?${part}`)).toEqual([400, parts])
  expect((await fetch(`${admin.url}/metrics`)).status).toBe(200)
  expect(asked).toEqual(['ingest', 'work', 'metrics'])
})

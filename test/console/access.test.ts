/** Who is let in behind a proxy and over https, and the answers to requests that cannot be read. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { networksOf, type Role } from '../../src/core/peers.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import { takeDefects } from '../support/defects.ts'
import { startConsole } from './support/console.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>

beforeAll(async () => {
  warehouse = await openWarehouse()
})
afterAll(() => warehouse?.drop())

const proxyWith = (more: object) => ({
  ...{ addresses: networksOf(['127.0.0.1'])!, loginHeader: 'x-login', groupsHeader: null as string | null },
  roles: {
    logins: new Map<string, Role>([['ada', 'operator']]),
    groups: new Map<string, Role>([['data', 'steward']]),
    others: 'viewer' as Role | null,
  },
  ...more,
})

async function ask(
  { port }: { readonly port: number },
  path: string,
  headers: Record<string, string> = {},
  init: RequestInit = {},
) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { redirect: 'manual', headers, ...init })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

const logins = () =>
  query<{ login: string; role: string }>(
    warehouse.url,
    `select login, detail ->> 'role' as role from intake_ops.audit where detail ->> 'by' = 'proxy' order by audit_id`,
  )

it('a login without a role has that of all others, and no group counts where no header of groups is configured', async () => {
  await using console_ = await startConsole(warehouse.url, { proxy: proxyWith({}) })
  const grace = { 'x-login': 'grace', 'x-groups': 'data' }
  expect((await ask(console_, '/inbox', grace)).text).toContain('grace, viewer')
  expect((await ask(console_, '/audit', grace)).status).toBe(403)
  expect((await ask(console_, '/inbox', { 'x-login': 'ada' })).text).toContain('ada, operator')
  // Every later request is of the same session.
  for (let time = 0; time < 2; time++) await ask(console_, '/inbox', { 'x-login': 'ada' })
  expect(await logins()).toEqual([
    { login: 'grace', role: 'viewer' },
    { login: 'ada', role: 'operator' },
  ])
})

it('a login that cannot be audited is not let in, and is audited when it comes again', async () => {
  const before = await logins()
  await using console_ = await startConsole(warehouse.url, { proxy: proxyWith({}) })
  await query(warehouse.url, 'alter table intake_ops.audit rename to audit_away')
  const refused = await ask(console_, '/inbox', { 'x-login': 'ada' })
  await query(warehouse.url, 'alter table intake_ops.audit_away rename to audit')
  expect([refused.status, refused.text.includes('ada, operator')]).toEqual([503, false])
  expect((await ask(console_, '/inbox', { 'x-login': 'ada' })).status).toBe(200)
  expect((await logins()).slice(before.length)).toEqual([{ login: 'ada', role: 'operator' }])
})

it('a login that the proxy names counts before the cookie of an earlier login, and is refused for what it lacks', async () => {
  await using console_ = await startConsole(warehouse.url, { proxy: proxyWith({}) })
  const before = await logins()
  const { cookie, token } = await console_.enter('operator', 'hugo')
  const page = await ask(console_, '/audit', { cookie })
  expect([page.status, page.text.includes('hugo, operator')]).toEqual([200, true])
  const grace = { cookie, 'x-login': 'grace' }
  expect((await ask(console_, '/inbox', grace)).text).toContain('grace, viewer')
  expect((await ask(console_, '/audit', grace)).status).toBe(403)
  // A form of the earlier login is of another session.
  const body = new URLSearchParams({ login: 'kim', role: 'viewer', token })
  const send = (headers: Record<string, string>) =>
    ask(console_, '/audit/link', headers, { method: 'POST', body })
  expect((await send({ cookie, 'x-login': 'ada' })).status).toBe(403)
  expect((await send({ cookie })).status).toBe(200)
  expect((await logins()).slice(before.length)).toEqual([
    { login: 'grace', role: 'viewer' },
    { login: 'ada', role: 'operator' },
  ])
})

it('a header that names no login with a role is refused, whatever cookie comes with it', async () => {
  const roles = { ...proxyWith({}).roles, others: null }
  const own = proxyWith({ roles })
  await using console_ = await startConsole(warehouse.url, { proxy: own })
  await using foreign = await startConsole(warehouse.url, {
    proxy: { ...own, addresses: networksOf(['192.0.2.7'])! },
  })
  for (const [asked, login] of [
    [console_, 'grace'],
    [console_, 'ada, grace'],
    [console_, ''],
    [foreign, 'ada'],
  ] as const) {
    const { cookie } = await asked.enter('operator', 'hugo')
    expect([login, (await ask(asked, '/inbox', { cookie, 'x-login': login })).status]).toEqual([login, 403])
    expect([login, (await ask(asked, '/inbox', { 'x-login': login })).status]).toEqual([login, 403])
    expect([login, (await ask(asked, '/inbox', { cookie })).status]).toEqual([login, 200])
  }
})

it('a login has the highest of its own role and those of its groups; the role of all others only without any', async () => {
  const roles = {
    logins: new Map<string, Role>([
      ['ada', 'operator'],
      ['kim', 'steward'],
      ['lou', 'viewer'],
    ]),
    groups: new Map<string, Role>([
      ['data', 'steward'],
      ['care', 'operator'],
      ['read', 'viewer'],
    ]),
  }
  const open = (others: Role | null) =>
    startConsole(warehouse.url, {
      proxy: proxyWith({ groupsHeader: 'x-groups', roles: { ...roles, others } }),
    })
  const shown = async (console_: { readonly port: number }, login: string, groups: string | null) => {
    const headers = groups === null ? { 'x-login': login } : { 'x-login': login, 'x-groups': groups }
    const { status, text } = await ask(console_, '/inbox', headers)
    return status === 200 ? new RegExp(`${login}, (\\w+)`).exec(text)?.[1] : status
  }
  await using strict = await open(null)
  await using generous = await open('operator')
  for (const [login, groups, role, ofOthers] of [
    ['ada', null, 'operator', 'operator'],
    ['ada', 'data', 'steward', 'steward'],
    ['ada', 'read', 'operator', 'operator'],
    ['kim', 'read,care', 'steward', 'steward'],
    ['lou', 'care', 'operator', 'operator'],
    ['lou', 'unknown', 'viewer', 'viewer'],
    ['eve', 'read, care', 'operator', 'operator'],
    ['eve', 'data,read', 'steward', 'steward'],
    ['eve', 'read', 'viewer', 'viewer'],
    ['eve', 'unknown', 403, 'operator'],
    ['eve', null, 403, 'operator'],
  ] as const) {
    const found = [await shown(strict, login, groups), await shown(generous, login, groups)]
    expect([login, groups, ...found]).toEqual([login, groups, role, ofOthers])
  }
})

it('behind https the cookie is only for it; a stranger learns of no page that it is not there', async () => {
  const publicUrl = 'https://console.example.org'
  await using console_ = await startConsole(warehouse.url, { publicUrl })
  const link = new URL(console_.link('ada', 'viewer')).searchParams.get('link')!
  const entered = await console_.reader().post('/login', { link })
  const cookie = entered.headers.get('set-cookie')!
  expect(cookie).toMatch(/^__Host-intake-console=[^;]+; Path=\/; HttpOnly; Secure; SameSite=Strict$/)
  const reader = console_.reader(cookie.split(';')[0])
  expect([(await reader.get('/inbox')).status, (await reader.get('/nowhere')).status]).toEqual([200, 404])
  expect((await reader.head('/inbox')).status).toBe(200)
  // An error page, and the answer to a form, are not loaded again.
  expect(
    [(await reader.get('/inbox')).text, (await reader.get('/nowhere')).text].map((text) =>
      text.includes('data-live'),
    ),
  ).toEqual([...[true, false]])
  const stranger = await console_.reader().get('/nowhere')
  expect([stranger.status, stranger.headers.get('location')]).toEqual([303, '/login'])
  const posted = await console_.reader().post('/nowhere')
  expect([posted.status, posted.text]).toEqual([401, 'you are not logged in\n'])
  expect(posted.headers.get('content-type')).toBe('text/plain; charset=utf-8')
})

it('a form without a token does nothing, also where it has no fields, or no body', async () => {
  await using console_ = await startConsole(warehouse.url)
  const { cookie, token } = await console_.enter('viewer')
  const logOut = (body?: string, type = 'application/x-www-form-urlencoded') =>
    ask(
      console_,
      '/logout',
      { cookie, ...(body === undefined ? {} : { 'content-type': type }) },
      {
        method: 'POST',
        ...(body === undefined ? {} : { body }),
      },
    )
  const refused = [await logOut(), await logOut(''), await logOut('other=1'), await logOut('token=')]
  refused.push(await logOut(`token=${token}&token=${token}`))
  // As many decisions as a page lists have room.
  refused.push(await logOut(`other=${'x'.repeat(262_100)}`))
  expect(refused.map(({ status }) => status)).toEqual(Array(6).fill(403))
  for (const { text } of refused) expect(text).toContain('the form is from another session')
  expect((await ask(console_, '/runs', { cookie })).status).toBe(200)
  expect((await logOut(`token=${token}`)).headers.get('location')).toBe('/login')
})

it('what cannot be read is refused without being quoted; a failure of our own is named as one', async () => {
  const checks = async () => {
    throw new TypeError('canary of a defect')
  }
  await using console_ = await startConsole(warehouse.url, { checks })
  const operator = await console_.enter('operator')
  const send = (type: string, body: string) =>
    ask(console_, '/logout', { cookie: operator.cookie, 'content-type': type }, { method: 'POST', body })
  const wrong = [
    await send('application/json', '{"canary'),
    await send('application/x-canary', 'x'),
    await send('application/x-www-form-urlencoded', `canary=${'x'.repeat(262_200)}`),
  ]
  expect(wrong.map(({ status }) => status)).toEqual([400, 415, 413])
  for (const { text } of wrong) {
    expect(text).toContain('the request cannot be read')
    expect(text).not.toContain('canary')
  }
  const failed = await operator.get('/health')
  expect([failed.status, failed.text.includes('this page failed in its own code')]).toEqual([500, true])
  expect(failed.text + console_.logged.join()).not.toContain('canary of')
  expect(console_.logged.join()).toContain('a defect of intake-sync: a page could not be shown')
  takeDefects()
})

it('a port that is in use is named, with what to set', async () => {
  await using console_ = await startConsole(warehouse.url)
  await expect(startConsole(warehouse.url, { port: console_.port })).rejects.toMatchObject({
    ...{ code: 'port_unusable', variable: 'INTAKE_CONSOLE_PORT', message: `port ${console_.port} is in use` },
  })
})

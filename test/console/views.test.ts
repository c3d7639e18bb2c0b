/** Templates of the console in states that are rare in a warehouse: what is marked as bad, and what is not there. */
import { expect, it } from 'vitest'
import { plain } from './support/console.ts'
import { html, marksIn, type PAGE } from './support/views.ts'

it('the page of a screen and those below it are current, and no other; Audit and Break it are for whom they are', () => {
  const current = (page: Partial<typeof PAGE>) =>
    [
      ...html('error', { message: 'm', hint: null }, page).matchAll(
        /<a href="([^"]*)" aria-current="page">/g,
      ),
    ].map(([, path]) => path)
  const paths = ['/', '/runs', '/runs/7', '/runsx', '/audit', '/dead-letters/group']
  expect(paths.map((path) => current({ path }))).toEqual([
    ['/'],
    ['/runs'],
    ['/runs'],
    [],
    ['/audit'],
    ['/dead-letters'],
  ])
  const links = (page: Partial<typeof PAGE>) =>
    [...html('error', { message: 'm' }, page).matchAll(/<li><a href="([^"]*)"/g)].map(([, path]) => path)
  expect(links({})).toHaveLength(11)
  expect(links({ visitor: { login: 'kim', role: 'viewer' } })).not.toContain('/audit')
  expect(links({ canBreak: true })).toContain('/break')
  expect(html('error', { message: 'm' }, { visitor: null })).not.toContain('<nav')
  expect(html('error', { message: 'm' })).toMatch(/<main id="content" tabindex="-1" data-live>/)
  const waits = html('error', { message: 'm' }, { waits: true, isLive: false })
  expect(waits).toContain('<main id="content" tabindex="-1" data-waits>')
  expect(waits).toContain('<noscript><meta http-equiv="refresh"')
  expect(plain(html('error', { message: '<b>', hint: 'look' }))).toContain(
    'could not be shown: &lt;b&gt;. What to do: look.',
  )
  expect(html('error', { message: 'm', hint: null })).not.toContain('What to do')
})

it('a link asks for a button, and without one a new link can be printed', () => {
  const [linked, printed, plainly] = [
    { link: 'x', printed: false },
    { link: null, printed: true },
    { link: null, printed: false },
  ].map((data) => html('login', data, { visitor: null }))
  expect([linked!.includes('action="/login"'), linked!.includes('/login/link')]).toEqual([true, false])
  expect([printed!.includes('A new link was printed'), plainly!.includes('A new link was printed')]).toEqual([
    true,
    false,
  ])
  expect(plainly).toContain('action="/login/link"')
})

const RUN = {
  run: {
    run_id: 7,
    kind: 'verify',
    status: 'running',
    started_at: '2026-01-01T00:00:00Z',
    seconds: 9,
    error: null,
  },
  ...{ before: null, options: [], rows: [], lines: [] },
}
const live = (phase: string, more: object = {}) => ({
  ...{
    team: 'north',
    stream: 'forms',
    phase,
    pages: 1,
    requests: 1,
    throttled: 0,
    fetched: 5,
    expected: null,
  },
  ...{ rate: null, seconds_left: null, ...more },
})

it('a running run shows its phase, its budget and its end, and lines that are no information as bad', () => {
  const teams = [
    { team: 'north', requests: 1_000, throttled: 2, rate: 3.456, permitted_rate: 10, share: 0.3456 },
    { team: 'south', requests: 1, throttled: 0, rate: 0, permitted_rate: null, share: null },
  ]
  const progress = {
    streams: [live('compare'), live('merge', { rate: 2.6, expected: 10, seconds_left: 2 }), live('ended')],
    teams,
    seconds_left: 90,
  }
  const lines = [
    { at: '2026-01-01T03:04:05Z', level: 'info', team: 'north', stream: null, message: 'a' },
    { at: '2026-01-01T03:04:06Z', level: 'warn', team: 'north', stream: 'forms', message: 'b' },
    { at: '2026-01-01T03:04:07Z', level: 'error', team: null, stream: null, message: 'c' },
  ]
  const text = html('run', { ...RUN, progress, lines })
  expect(marksIn(text)).toEqual(['unknown: running'])
  const phases = [...text.matchAll(/<ol class="phases">(.*?)<\/ol>/g)].map(([, each]) =>
    plain(each!.replace(/<li aria-current="step">/g, '>')),
  )
  expect(phases).toEqual([
    'plan fetch >compare',
    'plan fetch >merge delete check',
    'plan fetch merge delete check >ended',
  ])
  expect(plain(text)).toContain('2 streams being read, 1 ended; about 90 s until the longest list is read.')
  expect(plain(text)).toMatch(/north 1,000 2 3\.5 10\.0 35 % south 1 0 0\.0 not known –/)
  expect(plain(text)).toContain('1 5 10 3 2 s')
  expect(plain(text)).toContain('No stream has ended yet.')
  expect(
    [...text.matchAll(/<li( class="bad")?>(03:.*?)<\/li>/g)].map(
      ([, bad, line]) => `${bad === undefined} ${line}`,
    ),
  ).toEqual([
    ...['true 03:04:05 info north a', 'false 03:04:06 warn north/forms b', 'false 03:04:07 error  c'],
  ])
  const unknown = html('run', { ...RUN, progress: { ...progress, seconds_left: null } })
  expect(plain(unknown)).toContain('the time left is not known')
  expect(plain(html('run', { ...RUN, progress: { streams: [], teams: [], seconds_left: null } }))).toContain(
    'It began less than a second ago',
  )
  const failed = {
    ...RUN,
    run: { ...RUN.run, status: 'failed', error: 'away' },
    progress: null,
    options: [['since', 'then']],
  }
  expect(marksIn(html('run', failed))).toEqual(['bad: failed'])
  expect(plain(html('run', failed))).toMatch(/since then away .* No stream was read\./)
})

it('checks that are not ok are counted, marked, and have what to do', () => {
  const check = (status: string, hint: string | null = null) => ({
    name: `a ${status} one`,
    status,
    detail: 'd',
    hint,
  })
  const data = { server: null, kept: [], settings: [], version: '1.2.3', node: 'v24' }
  const at = new Date('2026-01-01T00:00:00Z')
  const text = html('health', {
    ...data,
    checked: { checks: [check('ok'), check('warning', 'free space'), check('failed')], at },
  })
  expect(marksIn(text)).toEqual(['good: ok', 'unknown: warning', 'bad: failed'])
  expect(text).toMatch(/class="notice bad">2 checks not ok, at 2026-01-01 00:00 UTC/)
  expect(plain(text)).toContain('a warning one warning d free space')
  const good = html('health', { ...data, checked: { checks: [check('ok')], at } })
  expect(good).toMatch(/class="notice good">Every check is ok/)
  expect(plain(html('health', { ...data, checked: null }))).toContain('Checking database')
})

it('a stream is late after the limit, and one that was never read is not fresh', () => {
  const row = (lag_seconds: number | null, more: object = {}) => ({
    ...{
      team: 'north',
      stream: 'forms',
      rows: 1,
      deleted: 0,
      newest_record_at: null,
      inbox: 0,
      dead_letters: 0,
      drift: 0,
    },
    ...{ last_success_at: lag_seconds === null ? null : 'then', lag_seconds, last_run_status: null, ...more },
  })
  const streams = [row(3_600), row(3_601), row(null, { last_run_status: 'needs_attention' })]
  const data = {
    teams: ['north'],
    parts: [],
    status: { streams },
    of: () => null,
    runBars: () => [],
    maxAgeSeconds: 3_600,
  }
  const text = html('streams', data)
  expect(marksIn(text)).toEqual(['good: 60 min ago', 'bad: 60 min ago'])
  expect(plain(text)).toMatch(/forms 1 0 – never needs attention – 0 0 0 0 no run/)
  expect(plain(html('streams', { ...data, parts: ['north', 'west'] }))).toContain('Teams from: north west')
})

/** The pause before each attempt of one call. */
import { expect, test } from 'vitest'
import { openHurriedClock } from '../support/hurried-clock.ts'
import { clientOf, json, startService } from '../support/service.ts'

test('an answer without Retry-After is not waited for as long as the one before asked for', async () => {
  await using service = await startService((_, response, index) => {
    if (index === 0) json(response, {}, 503, { 'retry-after': '7' })
    else json(response, { ok: index }, index < 3 ? 500 : 200)
  })
  const clock = openHurriedClock()
  await using heard = clientOf(service.url, { clock })
  expect((await heard.client.get('/v2/forms')).body).toEqual({ ok: 3 })
  // Then a thousandth, which is the chance that the client has, of one and of two seconds.
  expect(clock.slept).toEqual([7_000, 1, 2])
})

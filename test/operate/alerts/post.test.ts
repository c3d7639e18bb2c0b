/** One post of alerts to a slow receiver. */
import { expect, test } from 'vitest'
import { post } from '../../../src/operate/alerts/post.ts'
import { collecting } from '../../support/garbage.ts'
import { openReceiver } from './receiver.ts'

const never = () => new AbortController().signal

test('a receiver that never answers is abandoned after its timeout, with an error that names it', async () => {
  await using receiver = await openReceiver()
  receiver.answer('hang')
  using _ = collecting()
  const place = { url: receiver.url, secret: null }
  const posting = post(place, [], { now: new Date(0), signal: never(), version: '1', limitMs: 1_500 })
  await expect(posting).rejects.toMatchObject({
    code: 'alerts_refused',
    message: 'INTAKE_ALERT_URL did not accept the alerts: no response within 1.5 seconds',
  })
  expect(receiver.posts).toHaveLength(1)
})

test('stopping a post does not wait for its receiver', async () => {
  await using receiver = await openReceiver()
  receiver.answer('hang')
  const stop = new AbortController()
  const place = { url: receiver.url, secret: null }
  const options = { now: new Date(0), signal: stop.signal, version: '1', limitMs: 600_000 }
  const posting = expect(post(place, [], options)).rejects.toMatchObject({ code: 'alerts_refused' })
  await expect.poll(() => receiver.posts.length, { timeout: 60_000 }).toBe(1)
  stop.abort()
  await posting
})

/** Sends a mixture's events to an ingester, signed, nearly in their order over several connections. */
import { Pool } from 'undici'
import { SIGNATURE_HEADER, sign } from '../../../src/core/signature.ts'
import type { Delivery } from './mixture.ts'

/** Resolves when all are acknowledged; throws at any answer other than 200. `url`: the ingester, which has `secret` for each team. */
export async function sendAll(
  url: string,
  deliveries: readonly Delivery[],
  secret: string,
  connections = 16,
): Promise<void> {
  const pool = new Pool(url, { connections })
  let next = 0
  const lane = async () => {
    while (next < deliveries.length) {
      const { team, body } = deliveries[next++]!
      const headers = { 'content-type': 'application/json', [SIGNATURE_HEADER]: sign(body, secret) }
      const answer = await pool.request({ method: 'POST', path: `/webhooks/${team}`, headers, body })
      await answer.body.dump()
      if (answer.statusCode !== 200) throw new Error(`an event was answered ${answer.statusCode}`)
    }
  }
  try {
    await Promise.all(Array.from({ length: connections }, lane))
  } finally {
    await pool.close()
  }
}

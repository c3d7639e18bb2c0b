/**
 * A complete round through the service, with the steps of a user at a shell: upload patients, send a packet, fill it in,
 * receive the signed events, export the answers.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import { expect, it } from 'vitest'
import { type Loose, parsed } from '../emulator/caller.ts'
import { type Ended, runCli, startCli } from '../support/cli.ts'
import { createTestDatabase } from '../support/database.ts'

interface Received {
  readonly signature: string
  readonly body: Buffer
  readonly event: Loose
}

/** A receiver on loopback that keeps every delivery as received. */
async function openReceiver() {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const body = Buffer.concat(pieces)
    const signature = String(request.headers['x-service-signature'])
    received.push({ signature, body, event: JSON.parse(body.toString('utf8')) })
    response.writeHead(204).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const close = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  return { url, received, [Symbol.asyncDispose]: close }
}

const PATIENTS = [
  'first_name,last_name,email,phone_number,date_birth,emergency_first_name,emergency_last_name',
  'Zoë,"O’Neil, Jr.",zoe@example.com,5550100,1980-02-29,Ann,Bee',
  'No,Birthday,no@example.com,5550101,1981-02-29,,',
  'Li,Wei,li@example.com,5550102,1990-01-01,,',
].join('\r\n')

it('patients are uploaded, a packet is sent and filled in: openssl reproduces the signatures, and the answers are in the CSV', async () => {
  await using database = await createTestDatabase()
  await using receiver = await openReceiver()
  const emulator = startCli(['emulator', '--port', '0', '--patients', '3', '--responses', '8', '--json'], {})
  await emulator.said('}]}\n')
  try {
    const { environments } = JSON.parse(emulator.output())
    const [{ base_url, teams }] = environments
    const env = {
      INTAKE_BASE_URL: base_url,
      INTAKE_API_KEY: teams[0].api_key,
      INTAKE_API_SECRET: teams[0].api_secret,
      DATABASE_URL: database.url,
      INTAKE_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    }
    const cli = async (expected: number, ...args: string[]): Promise<Loose> => {
      const ended: Ended = await runCli(args, env)
      expect({ args, code: ended.code, stderr: ended.stderr }).toMatchObject({ args, code: expected })
      return parsed(ended.stdout) ?? ended.stdout
    }

    const created = await cli(0, 'webhooks', 'create', '--url', receiver.url, '--json')
    const secret: string = created.signature_secret
    expect(secret).not.toBe('')

    const folder = mkdtempSync(join(tmpdir(), 'intake-sync-round-'))
    const file = join(folder, 'patients.CSV')
    writeFileSync(file, PATIENTS)
    const upload = await cli(4, 'patients', 'upload', file, '--json').finally(() =>
      rmSync(folder, { recursive: true }),
    )
    expect(JSON.stringify(upload)).toContain('date_birth')
    const { results } = await cli(0, 'api', 'GET', '/v2/patients', '-q', 'email=zoe@example.com')
    expect(results).toMatchObject([{ last_name: 'O’Neil, Jr.', emergency_contact: { first_name: 'Ann' } }])
    const [zoe] = results

    const packets = await cli(0, 'api', 'GET', '/v2/packets')
    const packet = packets.results[0]
    const message = {
      patient: zoe.id,
      packet: packet.id,
      message_type: 'form_response_request',
      preferred_delivery_method: 'email',
    }
    const sent = await cli(0, 'api', 'POST', '/v2/messages', '-d', JSON.stringify(message))
    expect(sent).toMatchObject({ status: 'pending', target_email: 'zoe@example.com' })

    const ofPacket = () => receiver.received.filter(({ event }) => event.source === 'packet_response')
    await expect.poll(() => ofPacket().length).toBeGreaterThan(0)
    expect(ofPacket()[0]!.event).toMatchObject({
      event_type: 'updated',
      data: { is_submitted: false, form_index: null, packet: { id: packet.id } },
    })
    const { id, responses } = ofPacket()[0]!.event.data
    const act = (what: string, body: object) =>
      fetch(`${base_url}/_control/packet-responses/${id}/${what}`, {
        method: 'POST',
        body: JSON.stringify(body),
      })
    expect((await act('advance', {})).status).toBe(200)
    await expect.poll(() => ofPacket().some(({ event }) => event.data.form_index === 1)).toBe(true)
    expect((await act('submit', { skip: [responses.length] })).status).toBe(200)
    await expect.poll(() => ofPacket().some(({ event }) => event.data.is_submitted)).toBe(true)

    const openssl = spawnSync('openssl', ['version']).status === 0
    if (!openssl) process.stderr.write('openssl is not here: signatures are not reproduced with it\n')
    for (const { signature, body } of openssl ? receiver.received : []) {
      const digest = execFileSync('openssl', ['dgst', '-sha256', '-hmac', secret], { input: body })
      expect(digest.toString().trim().split(' ').at(-1)).toBe(signature)
    }
    const skipped = await cli(0, 'api', 'GET', `/v2/responses/${responses.at(-1)}`)
    expect(skipped).toMatchObject({ is_submitted: true, is_skipped: true, answers: [] })

    const answered = await cli(0, 'api', 'GET', `/v2/responses/${responses[0]}`)
    const exports = await cli(0, 'api', 'GET', '/v2/export-csv')
    const wanted = exports.results.find(({ form }: Loose) => form.id === answered.form_id)
    const body = JSON.stringify({ id: wanted.id })
    const csv = await cli(0, 'api', 'POST', '/v2/export-csv', '-q', 'type=raw_text', '-d', body)
    const rows: string[][] = parse(csv)
    expect(rows[0]!.slice(0, 7)).toEqual([
      ...['Client ID', 'First Name', 'Last Name', 'Email', 'Sent at', 'Completed at', 'Archived'],
    ])
    const row = rows.find(([client]) => client === zoe.id)!
    expect(row.slice(0, 4)).toEqual([zoe.id, 'Zoë', 'O’Neil, Jr.', 'zoe@example.com'])
    const texts = answered.answers.flatMap(({ answer_text }: Loose) => answer_text || [])
    for (const text of texts.filter((one: string) => one !== 'true' && one !== 'false')) {
      expect(row.slice(7).join('\n')).toContain(text)
    }
    const deliveries = await cli(0, 'webhooks', 'events', '--json')
    expect(JSON.stringify(deliveries)).toContain('packet_response')
  } finally {
    emulator.kill('SIGTERM')
    expect((await emulator.ended).code).toBe(0)
  }
})

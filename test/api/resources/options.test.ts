/** What a caller may add to any call of the library: a meter, a signal, a look at what was refused. */
import { expect, test } from 'vitest'
import type { Client } from '../../../src/api/client.ts'
import * as library from '../../../src/index.ts'
import { clientOf, errorOf, json, startService } from '../support/service.ts'

type Does = (client: Client, options: library.CallOptions) => Promise<unknown>

const target = { target_url: 'https://u.example' }
const message = { patient: 'p', form: 'f', preferred_delivery_method: 'email' } as const
const file = { name: 'a.csv', bytes: Buffer.from('a') }

const CALLS: { readonly [name: string]: Does } = {
  getPatient: (client, options) => library.getPatient(client, 'x', options),
  createPatient: (client, options) => library.createPatient(client, {}, options),
  replacePatient: (client, options) => library.replacePatient(client, 'x', {}, options),
  changePatient: (client, options) => library.changePatient(client, 'x', {}, options),
  deletePatient: (client, options) => library.deletePatient(client, 'x', options),
  uploadPatients: (client, options) => library.uploadPatients(client, file, options),
  getPatientUpload: (client, options) => library.getPatientUpload(client, 'x', options),
  getMessage: (client, options) => library.getMessage(client, 'x', options),
  sendMessage: (client, options) => library.sendMessage(client, message, options),
  changeMessage: (client, options) => library.changeMessage(client, 'x', {}, options),
  cancelMessage: (client, options) => library.cancelMessage(client, 'x', options),
  changeScheduledMessage: (client, options) => library.changeScheduledMessage(client, 'x', {}, options),
  cancelScheduledMessage: (client, options) => library.cancelScheduledMessage(client, 'x', options),
  getForm: (client, options) => library.getForm(client, 'x', options),
  getPacket: (client, options) => library.getPacket(client, 'x', options),
  getDocument: (client, options) => library.getDocument(client, 'x', options),
  getResponse: (client, options) => library.getResponse(client, 'x', options),
  readExport: (client, options) => library.readExport(client, 'x', options),
  streamExport: (client, options) => library.streamExport(client, 'x', 'raw_text', options),
  getWebhookConfig: (client, options) => library.getWebhookConfig(client, 'x', options),
  createWebhookConfig: (client, options) => library.createWebhookConfig(client, target, options),
  replaceWebhookConfig: (client, options) => library.replaceWebhookConfig(client, 'x', target, options),
  changeWebhookConfig: (client, options) => library.changeWebhookConfig(client, 'x', {}, options),
  deleteWebhookConfig: (client, options) => library.deleteWebhookConfig(client, 'x', options),
  testWebhookConfig: (client, options) => library.testWebhookConfig(client, 'x', options),
}

const LISTS = {
  listPatients: library.listPatients,
  listMessages: library.listMessages,
  listForms: library.listForms,
  listPackets: library.listPackets,
  listDocuments: library.listDocuments,
  listResponses: library.listResponses,
  listExports: library.listExports,
  listWebhookConfigs: library.listWebhookConfigs,
  listWebhookDeliveries: library.listWebhookDeliveries,
} satisfies { readonly [name: string]: (client: Client) => AsyncGenerator<unknown> }

test('every call counts in the meter it is given, and shows the answer that refused it', async () => {
  await using service = await startService((_, response) => json(response, { detail: 'no' }, 422))
  await using heard = clientOf(service.url)
  const seen = await Promise.all(
    Object.entries(CALLS).map(async ([name, does]) => {
      const meter = { requests: 0, throttled: 0 }
      const statuses: number[] = []
      await errorOf(does(heard.client, { meter, onRefusal: ({ status }) => statuses.push(status) }))
      return [name, meter.requests, statuses]
    }),
  )
  expect(seen).toEqual(Object.keys(CALLS).map((name) => [name, 1, [422]]))
})

test('every call ends with the signal it is given, before it sends anything', async () => {
  await using service = await startService((_, response) => json(response, { id: 'x' }))
  await using heard = clientOf(service.url)
  const signal = AbortSignal.abort(new Error('stopped by hand'))
  for (const [name, does] of Object.entries(CALLS)) {
    const { message: said } = await errorOf(does(heard.client, { signal }))
    expect([name, said]).toEqual([name, 'stopped by hand'])
  }
  for (const [name, list] of Object.entries(LISTS)) {
    const { message: said } = await errorOf(list(heard.client, { signal }).next())
    expect([name, said]).toEqual([name, 'stopped by hand'])
  }
  expect(service.received).toEqual([])
})

test('every list counts in the meter it is given, with the page size it is given', async () => {
  await using service = await startService((_, response) => json(response, { count: 0, results: [] }))
  await using heard = clientOf(service.url, { pageSize: 50 })
  for (const list of Object.values(LISTS)) {
    const meter = { requests: 0, throttled: 0 }
    await list(heard.client, { meter, pageSize: 7 }).next()
    expect(meter.requests).toBe(1)
  }
  const queries = service.received.map(({ url }) => url.slice(url.indexOf('?')))
  expect(queries).toEqual(Object.keys(LISTS).map(() => '?page_size=7'))
})

test('the fetch after an update whose answer is empty counts in the same meter', async () => {
  await using service = await startService(({ method }, response) =>
    method === 'GET' ? json(response, { id: 'x' }) : response.writeHead(204).end(),
  )
  await using heard = clientOf(service.url)
  for (const name of ['replacePatient', 'changeMessage', 'changeScheduledMessage', 'changeWebhookConfig']) {
    const meter = { requests: 0, throttled: 0 }
    await CALLS[name]!(heard.client, { meter })
    expect([name, meter.requests]).toEqual([name, 2])
  }
})

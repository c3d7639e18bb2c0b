/** Section 6 of the specification: the sources whose records only the staff of a team changes. */
import { expect } from 'vitest'
import { eventProblems } from '../support/openapi.ts'
import { serviceUnderTest } from '../support/service-under-test.ts'
import { subscribe } from './support/making.ts'
import { openReceiver } from './support/receiver.ts'
import { rule } from './support/rule.ts'

const service = serviceUnderTest({ activity: 300 })

for (const source of ['form', 'packet', 'document']) {
  rule(`6 "${source} as GET /v2/${source}s/{id}"`, ['a receiver'], async () => {
    await using receiver = await openReceiver()
    await subscribe(service(), receiver, { sources: [source] })
    const { event, bytes } = await receiver.next(`event of a ${source}`, (each) => each.source === source)
    expect(new Set(receiver.deliveries.map((each) => each.event.source))).toEqual(new Set([source]))
    expect(event.event_type).toBe('updated')
    expect(eventProblems(source, bytes.toString('utf8'))).toEqual([])
    // It may have changed again since: only constant fields are compared, and the set of fields.
    const { body } = await service().call('GET', `/v2/${source}s/${event.data.id}`)
    expect(body).toMatchObject({ id: event.data.id, created_at: event.data.created_at })
    expect(Object.keys(event.data)).toEqual(Object.keys(body))
  })
}

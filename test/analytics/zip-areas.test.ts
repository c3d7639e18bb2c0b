/**
 * The ZIP areas that Safe Harbor hides: a separate copy of the list that HHS published for the Census of 2000
 * (Guidance Regarding Methods for De-identification of Protected Health Information, 26 November 2012).
 */
import { expect, it } from 'vitest'
import { openWarehouse, query } from '../e2e/support/scene.ts'

const RESTRICTED = '036 059 063 102 203 556 692 790 821 823 830 831 878 879 884 890 893'.split(' ')

it('the seventeen ZIP areas with 20,000 people or fewer are shown as 000, and each other one as itself', async () => {
  await using warehouse = await openWarehouse()
  const { url } = warehouse
  await query(url, `insert into intake.teams (name) values ('clinic')`)
  await query(
    url,
    `insert into intake.patients (team_id, id, zipcode, _version, _origin, _loaded_at, _hash)
     select 1, place || form, to_char(place, 'FM000') || form, now(), 'test', now(), '\\x00'
     from generate_series(0, 999) as place cross join unnest(array['01', '99', '01-1234', '011234']) as form`,
  )
  const rows = await query<{ area: string; shown: string }>(
    url,
    `select distinct left(p.zipcode, 3) as area, seen.zip3 as shown
     from intake.patients p cross join intake_ops.analytics_key k
     join intake_analytics.patients seen on seen.patient = intake_ops.pseudonym(k.inner_pad, k.outer_pad, p.team_id, p.id)
     order by 1`,
  )
  const every = Array.from({ length: 1000 }, (_, at) => String(at).padStart(3, '0'))
  expect(rows).toEqual(every.map((area) => ({ area, shown: RESTRICTED.includes(area) ? '000' : area })))
})

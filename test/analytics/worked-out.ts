/**
 * The expected answer of each query of docs/queries, computed from the emulator's own records, which contain more than
 * the API shows: which message asked for which response, and which responses belong to one submission of a packet.
 */
import type { Message, Patient, Response } from '../../src/emulator/world/records.ts'
import type { World } from '../../src/emulator/world/world.ts'
import { all, grouped, type Line } from './grouped.ts'
import { aged, whereTheyLive } from './worked-out-people.ts'

const hours = (from: string, to: string) => (Date.parse(to) - Date.parse(from)) / 3_600_000
const rounded = (value: number | null, digits: number) =>
  value === null ? null : Number(value.toFixed(digits))
const share = (part: number, whole: number) => rounded(part / whole, 4)

function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length / 2
  if (sorted.length === 0) return null
  return Number.isInteger(middle) ? (sorted[middle - 1]! + sorted[middle]!) / 2 : sorted[Math.floor(middle)]!
}

/** By the beginning of a query's file name. */
export function workedOut(world: World, pseudonym: (id: string) => string): Readonly<Record<string, Line[]>> {
  const responses = all<Response>(world.responses).map((each) => ({
    ...each,
    name: world.forms.get(each.form ?? '')?.name ?? null,
  }))
  const filled = responses.filter(({ is_submitted, is_skipped }) => is_submitted && !is_skipped)
  const messages = all<Message>(world.messages)
  const patients = all<Patient>(world.patients).map((each) => ({ ...each, ...aged(each.date_birth) }))
  const packets = all(world.packetResponses)
  const answers = filled.flatMap((response) =>
    response.answers.map((answer) => ({
      response,
      form: world.forms.get(response.form ?? '')!,
      question: world.forms.get(response.form ?? '')?.questions.find(({ id }) => id === answer.question?.id),
      choices: (answer.answer_choices ?? []).map(({ question_choice }) => question_choice.text_value),
      text: answer.answer_text,
    })),
  )
  const asking = messages
    .filter(({ sent_at, form, packet }) => sent_at !== null && form !== null && packet === null)
    .map((message) => ({
      message,
      response: responses.find((each) => each.message === message.id && each.form === message.form),
    }))
  const ofType = (type: string) =>
    answers.filter(({ question }) => question?.question_type.question_type === type)
  const ofQuestion = (rows: typeof answers) => grouped(rows, ({ form, question }) => [form.id, question!.id])

  return {
    '01': phq9(
      filled.filter(({ name }) => name === 'Mood check'),
      pseudonym,
    ),
    '02': grouped(asking, ({ message }) => message.preferred_delivery_method).map((group) => ({
      channel: group[0]!.message.preferred_delivery_method,
      sent: group.length,
      opened: group.filter(({ response }) => response !== undefined && begun(response)).length,
      answered: group.filter(({ response }) => response?.is_submitted).length,
      share_unanswered: share(group.filter(({ response }) => !response?.is_submitted).length, group.length),
    })),
    '03': grouped(packets, ({ packet }) => world.packets.get(packet)!.name).map((group) => ({
      packet: world.packets.get(group[0]!.packet)!.name,
      set_up: group.length,
      begun: group.filter(({ is_submitted }) => is_submitted).length,
      submitted: group.filter(({ is_submitted }) => is_submitted).length,
      share_submitted: share(group.filter(({ is_submitted }) => is_submitted).length, group.length),
    })),
    '06': grouped(
      responses.filter(({ form }) => form !== null),
      ({ form }) => form,
    ).map((group) => {
      const done = group.filter(({ is_submitted, is_skipped }) => is_submitted && !is_skipped)
      return {
        ...{ form: group[0]!.name, started: group.length, submitted: done.length },
        skipped: group.filter(({ is_skipped }) => is_skipped).length,
        open: group.filter(({ is_submitted }) => !is_submitted).length,
        share_submitted: share(done.length, group.filter(({ is_skipped }) => !is_skipped).length),
        median_hours: rounded(median(done.map((each) => hours(each.created_at, each.submitted_at!))), 2),
      }
    }),
    '07': weekly(responses, filled, messages),
    '08': grouped(patients, ({ age_band, sex_at_birth }) => [age_band, sex_at_birth || null]).map(
      (group) => ({
        ...{
          age_band: group[0]!.age_band,
          sex_at_birth: group[0]!.sex_at_birth || null,
          patients: group.length,
        },
      }),
    ),
    '09': whereTheyLive(patients),
    '10': grouped(
      patients.flatMap((patient) =>
        [...new Set(patient.patient_tags.map(({ name }) => name))].map((tag) => ({ patient, tag })),
      ),
      ({ tag }) => tag,
    ).map((group) => {
      const own = group.flatMap(({ patient }) => responses.filter((each) => each.patient === patient.id))
      return {
        ...{ tag: group[0]!.tag, patients: group.length, responses: own.length },
        submitted: own.filter(({ is_submitted, is_skipped }) => is_submitted && !is_skipped).length,
      }
    }),
    '11': grouped(
      answers
        .filter(({ form }) => form?.name === 'Insurance')
        .flatMap((answer) => answer.choices.map((choice) => ({ ...answer, choice }))),
      ({ question, choice }) => [question!.id, choice],
    ).map((group, _, groups) => ({
      ...{ question: group[0]!.question!.text, choice: group[0]!.choice, times: group.length },
      share: share(
        group.length,
        groups.flat().filter(({ question }) => question!.id === group[0]!.question!.id).length,
      ),
    })),
    '12': ofQuestion(ofType('number').filter(({ text }) => text !== null && text !== '')).map((group) => {
      const values = group.map(({ text }) => Number(text))
      return {
        ...{ form: group[0]!.form.name, question: group[0]!.question!.text, answers: values.length },
        ...{ least: Math.min(...values), greatest: Math.max(...values), median: median(values) },
        mean: rounded(values.reduce((sum, value) => sum + value, 0) / values.length, 2),
      }
    }),
    '14': together(
      answers.filter(({ form, question }) => form?.name === 'Intake' && question?.text === 'Devices you use'),
    ),
    '15': grouped(
      filled.filter(({ name }) => name !== null),
      ({ name }) => name,
    ).map((group) => {
      const gaps = grouped(group, ({ patient, form }) => [patient, form]).map((visits) => {
        const times = visits.map(({ submitted_at }) => Date.parse(submitted_at!)).sort((a, b) => a - b)
        return {
          patient: visits[0]!.patient,
          days: times.slice(1).map((time, at) => (time - times[at]!) / 86_400_000),
        }
      })
      return {
        form: group[0]!.name,
        patients: new Set(group.map(({ patient }) => patient)).size,
        returned: new Set(gaps.filter(({ days }) => days.length > 0).map(({ patient }) => patient)).size,
        median_days: rounded(median(gaps.flatMap(({ days }) => days)), 1),
      }
    }),
    '16': grouped(filled, ({ submitted_at }) => [
      weekday(submitted_at!),
      new Date(submitted_at!).getUTCHours(),
    ]).map((group) => ({
      weekday: weekday(group[0]!.submitted_at!),
      hour: new Date(group[0]!.submitted_at!).getUTCHours(),
      submitted: group.length,
    })),
    '18': grouped(
      responses.filter(({ packet }) => packet !== null),
      ({ packet, name }) => [world.packets.get(packet!)?.name, name],
    ).map((group) => ({
      packet: world.packets.get(group[0]!.packet!)!.name,
      form: group[0]!.name,
      responses: group.length,
      skipped: group.filter(({ is_skipped }) => is_skipped).length,
    })),
    '19': grouped(
      responses
        .filter(({ is_skipped }) => !is_skipped)
        .map((each) => ({ ...each, band: patients.find(({ id }) => id === each.patient)?.age_band })),
      ({ band }) => band,
    ).map((group) => ({
      ...{ age_band: group[0]!.band, responses: group.length },
      submitted: group.filter(({ is_submitted }) => is_submitted).length,
      share_submitted: share(group.filter(({ is_submitted }) => is_submitted).length, group.length),
    })),
    '04': grouped(
      messages.flatMap((message) => {
        const own = responses.filter((each) => each.message === message.id && each.is_submitted)
        const first = own.map(({ submitted_at }) => submitted_at!).sort()[0]
        return message.sent_at === null || first === undefined
          ? []
          : [{ channel: message.preferred_delivery_method, time: hours(message.sent_at, first) }]
      }),
      ({ channel }) => channel,
    ).map((group) => ({
      ...{ channel: group[0]!.channel, answered: group.length },
      median_hours: rounded(median(group.map(({ time }) => time)), 2),
    })),
  }
}

const begun = ({ is_submitted, created_at, updated_at }: Response) => is_submitted || updated_at > created_at

const weekday = (stamp: string) => new Date(stamp).getUTCDay() || 7

const POINTS: Readonly<Record<string, number>> = { Never: 0, 'Some days': 1, 'Most days': 2, 'Every day': 3 }

function phq9(visits: readonly Response[], pseudonym: (id: string) => string): Line[] {
  const scored = visits.flatMap(({ patient, submitted_at, answers }) => {
    const points = answers.flatMap(({ answer_choices }) =>
      (answer_choices ?? []).flatMap(({ question_choice }) => POINTS[question_choice.text_value] ?? []),
    )
    return points.length === 9
      ? [{ patient, submitted_at, score: points.reduce((sum, one) => sum + one, 0) }]
      : []
  })
  return grouped(scored, ({ patient }) => patient)
    .filter((group) => group.length > 1)
    .map((group) => {
      const sorted = [...group].sort((a, b) => Date.parse(a.submitted_at!) - Date.parse(b.submitted_at!))
      const [first, last] = [sorted[0]!.score, sorted.at(-1)!.score]
      return {
        ...{ patient: pseudonym(group[0]!.patient), visits: group.length },
        ...{ first_score: first, last_score: last, change: last - first },
      }
    })
}

function weekly(
  responses: readonly Response[],
  filled: readonly Response[],
  messages: readonly Message[],
): Line[] {
  const monday = (stamp: string) => {
    const day = new Date(stamp)
    day.setUTCDate(day.getUTCDate() - (day.getUTCDay() || 7) + 1)
    return day.toISOString().slice(0, 10)
  }
  const happened = [
    ...responses.map(({ created_at }) => ({ week: monday(created_at), what: 'asked' })),
    ...filled.map(({ submitted_at }) => ({ week: monday(submitted_at!), what: 'submitted' })),
    ...messages.flatMap(({ sent_at }) =>
      sent_at === null ? [] : [{ week: monday(sent_at), what: 'messages' }],
    ),
  ]
  return grouped(happened, ({ week }) => week).map((group) => ({
    week: group[0]!.week,
    ...Object.fromEntries(
      ['asked', 'submitted', 'messages'].map((name) => [
        name,
        group.filter(({ what }) => what === name).length,
      ]),
    ),
  }))
}

function together(given: readonly { readonly choices: readonly string[] }[]): Line[] {
  const pairs = given.flatMap(({ choices }) =>
    choices.flatMap((one) => choices.filter((other) => other > one).map((other) => ({ one, other }))),
  )
  return grouped(pairs, (pair) => pair).map((group) => ({ ...group[0]!, times: group.length }))
}

"""Research about a scheduling app for clinics."""

from dashboard.demo.stories import Guide, Scene, Story

RESEARCH = Story(
    slug="demo-research",
    name="Demo: Product research",
    description="Interviews, surveys and observations about a scheduling app for clinics. Example data.",
    categories=("interviews", "observations", "surveys", "ideas"),
    pinned=(
        Guide(
            "What we want to learn this quarter",
            "Why clinics keep a paper calendar beside the app, and what would have to be true for them to "
            "put it away. Everything else can wait.",
        ),
    ),
    scenes=(
        Scene(
            "interview",
            ("{role}", "calendar"),
            "Interview with a {role} in {city}",
            "Keeps a paper calendar 'because it never logs me out'. Opens the app {n} times a day, mostly "
            "to see who is next. Would give up paper if {wish}.",
        ),
        Scene(
            "observation",
            ("{place}",),
            "An hour at the {place} in {city}",
            "{n} patients arrived, four asked how long it would take. The {role} answered from memory, not "
            "from the screen, and was right every time.",
        ),
        Scene(
            "survey",
            ("{topic}",),
            "Survey on {topic}: {n} answers so far",
            "Half say it saves time, a third cannot say. Free text is about {wish} more than about anything"
            " we asked. The next round should ask for the last time it happened.",
        ),
        Scene(
            "usability",
            ("{topic}", "{role}"),
            "Test of {topic} with a {role}",
            "Found the button after {n} seconds, thought that it would send a message at once, and stopped."
            " The word 'Confirm' is taken for 'tell the patient'.",
        ),
        Scene(
            "idea",
            ("{topic}",),
            "Idea: {wish}",
            "Came up in {city} and again by mail. Small version: only for tomorrow, only for one room. Try "
            "it on paper with the {role} before anything is built.",
        ),
        Scene(
            "interview",
            ("no-shows",),
            "Why patients do not come, says a {role}",
            "Not forgetting: the bus, the shift, the child. Reminders two days ahead help the first; for "
            "the rest a way to move the appointment at {n} at night would.",
        ),
        Scene(
            "observation",
            ("phone",),
            "Phone log of the {place}, {city}",
            "Of {n} calls, a third only asked whether the appointment still stands. Each took two minutes "
            "and interrupted somebody at the desk.",
        ),
        Scene(
            "synthesis",
            ("{topic}", "quarter"),
            "What {n} conversations say about {topic}",
            "Three groups: those who plan by the room, by the person and by the machine. We show only the "
            "second. The {role} always belongs to another group than we expect.",
        ),
        Scene(
            "interview",
            ("switching", "{role}"),
            "Left us: a {role} from {city}",
            "Liked the app, left because the new {place} uses something else and nobody wanted two. Would "
            "come back for {wish}. Took the data along without trouble.",
        ),
        Scene(
            "note",
            ("accessibility",),
            "Screen reader session on {topic}",
            "The day view reads out {n} empty slots before the first appointment. A list of what is booked,"
            " with gaps named once, was done in a third of the time.",
        ),
        Scene(
            "survey",
            ("pricing",),
            "What clinics in {city} pay for {topic} today",
            "Between nothing and {n} euros a month for each room. Those who pay most also print most. Price"
            " was never the first thing they named.",
        ),
    ),
    words={
        "role": ("receptionist", "dentist", "practice manager", "physiotherapist", "nurse", "trainee"),
        "city": ("Bergen", "Leeds", "Gothenburg", "Cork", "Aarhus", "Utrecht", "Graz"),
        "place": ("front desk", "waiting room", "second practice", "group clinic"),
        "topic": ("moving appointments", "waiting lists", "room planning", "reminders", "the day view"),
        "wish": (
            "the day could be printed with one click",
            "two rooms were visible side by side",
            "colours meant the same for everybody",
            "it worked while the network is down",
            "a delay were passed on to the next patients",
        ),
    },
    records_a_day=1,
    second_note="a longer memory: interviews stay true for a month",
    second_settings={"window_days": 30, "max_records": 8},
)

// A chart shows the values under the pointer.

/** The part of the width at which a value begins, its time in seconds, and its text. */
type Point = [part: number, time: number, text: string];
const clock = new Intl.DateTimeFormat(document.documentElement.lang, { hour: "2-digit", minute: "2-digit" });

let reading: HTMLElement | undefined;
document.addEventListener("pointermove", e => {
  const plot = (e.target as Element).closest<HTMLElement>(".plot[data-points]");
  if (!plot) {
    reading?.remove();
    return;
  }
  const place = plot.getBoundingClientRect(), at = (e.clientX - place.left) / place.width;
  const points = JSON.parse(plot.dataset.points!) as Point[];
  const point = points.filter(p => p[0] <= at).pop();
  if (!point) return reading?.remove();
  reading ??= document.createElement("div");
  reading.className = at > 0.5 ? "reading left" : "reading";
  reading.textContent = clock.format(new Date(point[1] * 1000)) + " · " + point[2];
  reading.style.left = `${at * 100}%`;
  if (reading.parentElement !== plot) plot.append(reading);
});
